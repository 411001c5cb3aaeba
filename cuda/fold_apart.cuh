// The last stage of a grid-wide sum: the blocks' partial results in memory, folded by one block. It mostly waits for
// its reads, so many of these are in flight at a time. (On its own nvcc keeps only one or four in flight.)
#pragma once

#include <cstdint>

#include "cuda/launch.cuh"
#include "cuda/reduce.cuh"

namespace mantissa::cuda_backend {

// Folds f(i) for i = first, first + step, ... below `end`, in this order.
template <class Fold, class C, class F>
__device__ inline C fold_apart(std::int64_t first, std::int64_t end, std::int64_t step, F&& f) {
  constexpr int ahead = 8;
  C v = Fold::template identity<C>();
  for (std::int64_t i = first; i < end; i += ahead * step) {
    C e[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) e[k] = i + k * step < end ? f(i + k * step) : Fold::template identity<C>();
#pragma unroll
    for (int k = 0; k < ahead; ++k) v = Fold{}(v, e[k]);
  }
  return v;
}

}  // namespace mantissa::cuda_backend
