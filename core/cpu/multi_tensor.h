// How CPU kernels process many flat tensors in parallel: see core/multi_tensor.h for the invariant.
#pragma once

#include <algorithm>
#include <span>

#include "core/cpu/simd.h"
#include "core/multi_tensor.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

inline constexpr std::int64_t multi_tensor_block = grain_size;  // elements per task

template <class V> std::int64_t total_numel(std::span<const V> tensors) {
  std::int64_t n = 0;
  for (const V& t : tensors) n += t.numel;
  return n;
}

// Calls piece(tensor, first element, count, block number) for every run of elements within one tensor and one block.
template <class V, class F> void parallel_pieces(std::span<const V> tensors, F&& piece) {
  parallel_for(total_numel(tensors), multi_tensor_block, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t block = begin / multi_tensor_block;
    std::int64_t start = 0;  // of the current tensor in the concatenation
    for (const V& t : tensors) {
      const std::int64_t from = std::max(begin, start), to = std::min(end, start + t.numel);
      if (from < to) piece(t, from - start, to - from, block);
      start += t.numel;
      if (start >= end) break;
    }
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
