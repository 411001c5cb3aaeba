// Folding the values of a warp and of a block, always in the same order, so that results do not depend
// on how threads happen to run. Every thread gets the result.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace mantissa::cuda_backend {

inline constexpr unsigned all_lanes = 0xffffffffu;

struct Sum {
  template <class T> __device__ static T identity() { return T(0); }
  template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};
struct Prod {
  template <class T> __device__ static T identity() { return T(1); }
  template <class T> __device__ T operator()(T a, T b) const { return a * b; }
};
template <class T> __device__ inline T lowest_value() {
  if constexpr (std::is_integral_v<T>) return T(T(1) << (8 * sizeof(T) - 1));
  else return -T(__builtin_huge_val());
}
// NaN wins in both.
struct Max {
  template <class T> __device__ static T identity() { return lowest_value<T>(); }
  template <class T> __device__ T operator()(T a, T b) const { return b > a || !(b == b) ? b : a; }
};
struct Min {
  template <class T> __device__ static T identity() {
    if constexpr (std::is_integral_v<T>) return T(~lowest_value<T>());
    else return -lowest_value<T>();
  }
  template <class T> __device__ T operator()(T a, T b) const { return b < a || !(b == b) ? b : a; }
};

// All 32 lanes take part. The butterfly would give lanes different orders of the same terms; lane 0's is
// handed to all, so that they agree to the last bit.
template <class Fold, class T> __device__ inline T fold_warp(T v) {
  for (int distance = 16; distance > 0; distance /= 2) v = Fold{}(v, __shfl_down_sync(all_lanes, v, distance));
  return __shfl_sync(all_lanes, v, 0);
}

// All threads of a one-dimensional block of whole warps take part; `scratch` is shared memory for 32 values
// and may be used again at once.
template <class Fold, class T> __device__ inline T fold_block(T v, T* scratch) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  v = fold_warp<Fold>(v);
  if (warps == 1) return v;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  v = fold_warp<Fold>(lane < warps ? scratch[lane] : Fold::template identity<T>());
  __syncthreads();
  return v;
}

}  // namespace mantissa::cuda_backend
