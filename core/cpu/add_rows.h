// Adds rows to rows of a matrix chosen by index: gradients of tables of embeddings.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/cpu/simd.h"
#include "core/parallel.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// y[row(i)] += from for i from 0 to n: each(first, add) calls add(i, from) in this order, with the elements from column
// `first` on. A range of columns of a group of rows belongs to one thread, so that additions to one element happen in
// order, whatever the number of groups.
template <class T, class Row, class Each>
void add_rows(const View& y, std::int64_t n, const Row& row, const Each& each) {
  using C = Compute<T>;
  constexpr std::int64_t stretch = 64;
  const std::int64_t columns = y.sizes[1];
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
  const auto number = [&](std::int64_t i) { return sizeof(T) == 2 ? place[static_cast<std::size_t>(i)] : row(i); };
  const std::int64_t stretches = std::max<std::int64_t>(1, (columns + stretch - 1) / stretch);
  const auto groups = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>((num_threads() + stretches - 1) / stretches)));
  const std::int64_t grain = std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, n * stretch / groups));
  parallel_for(stretches * groups, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> sums(named.size() * stretch);
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b / groups * stretch, count = std::min(stretch, columns - first);
      const auto is_mine = [group = b % groups, groups](std::int64_t r) { return (r & (groups - 1)) == group; };
      T* to = y.as<T>() + first;
      const auto for_named = [&](const auto& f) {
        for (std::size_t r = 0; r < named.size(); ++r)
          if (is_mine(static_cast<std::int64_t>(r))) f(to + named[r] * y.strides[0], sums.data() + r * stretch);
      };
      for_named([&](T* stored, C* sum) { convert_run(sum, stored, 1, count); });
      each(first, [&](std::int64_t i, const T* from) {
        const std::int64_t r = number(i);
        if (!is_mine(r)) return;
        if constexpr (sizeof(T) == 2) {
          C* sum = sums.data() + r * stretch;
          for (std::int64_t j = 0; j < count; ++j) sum[j] += static_cast<C>(from[j]);
        } else {
          T* sum = to + r * y.strides[0];
          for (std::int64_t j = 0; j < count; ++j) sum[j] = static_cast<T>(sum[j] + from[j]);
        }
      });
      for_named([&](T* stored, C* sum) { convert_run(stored, sum, 1, count); });
    }
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
