// Adds rows to rows of a matrix chosen by index: gradients of tables of embeddings.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/cpu/simd.h"
#include "core/parallel.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// y[row(i)] += from for i from 0 to n, in the first `columns` columns: each(first, add) calls add(i, from) in this
// order, with the elements from column `first` on. A range of columns belongs to one thread, so that additions to one
// element happen in order.
template <class T, class Row, class Each>
void add_rows(const View& y, std::int64_t columns, std::int64_t n, const Row& row, const Each& each) {
  using C = Compute<T>;
  constexpr std::int64_t stretch = 64;
  const std::int64_t grain = std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, n * stretch));
  // f16 and bf16 are summed in f32 and rounded once. Only rows that occur have a sum: place[i] is that of row(i).
  std::vector<std::int64_t> named, place;
  if constexpr (sizeof(T) == 2) {
    std::vector<std::int64_t> place_of(static_cast<std::size_t>(y.sizes[0]), -1);
    place.resize(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t& p = place_of[static_cast<std::size_t>(row(i))];
      if (p < 0) p = static_cast<std::int64_t>(named.size()), named.push_back(row(i));
      place[static_cast<std::size_t>(i)] = p;
    }
  }
  parallel_for((columns + stretch - 1) / stretch, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> sums(named.size() * stretch);
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b * stretch, count = std::min(stretch, columns - first);
      T* to = y.as<T>() + first;
      for (std::size_t r = 0; r < named.size(); ++r)
        convert_run(sums.data() + r * stretch, to + named[r] * y.strides[0], 1, count);
      each(first, [&](std::int64_t i, const T* from) {
        if constexpr (sizeof(T) == 2) {
          C* sum = sums.data() + place[static_cast<std::size_t>(i)] * stretch;
          for (std::int64_t j = 0; j < count; ++j) sum[j] += static_cast<C>(from[j]);
        } else {
          T* sum = to + row(i) * y.strides[0];
          for (std::int64_t j = 0; j < count; ++j) sum[j] = static_cast<T>(sum[j] + from[j]);
        }
      });
      for (std::size_t r = 0; r < named.size(); ++r)
        convert_run(to + named[r] * y.strides[0], sums.data() + r * stretch, 1, count);
    }
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
