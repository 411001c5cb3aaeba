// Folds the values of a warp or a block, always in the same order, so that results do not depend on thread scheduling.
// Every thread gets the result.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "cuda/ptx.cuh"

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
// NaN wins over any number.
struct Max {
  template <class T> __device__ static T identity() { return lowest_value<T>(); }
  template <class T> __device__ T operator()(T a, T b) const { return b > a || !(b == b) ? b : a; }
  __device__ float operator()(float a, float b) const { return ptx::larger_or_nan(a, b); }  // one instruction
};
struct Min {
  template <class T> __device__ static T identity() {
    if constexpr (std::is_integral_v<T>) return T(~lowest_value<T>());
    else return -lowest_value<T>();
  }
  template <class T> __device__ T operator()(T a, T b) const { return b < a || !(b == b) ? b : a; }
  __device__ float operator()(float a, float b) const { return ptx::smaller_or_nan(a, b); }
};

// Folds neighbouring groups of `lanes`, a power of two up to 32; the first lane of each gets the result. All 32 lanes
// participate.
template <class Fold, class T> __device__ inline T fold_lanes(T v, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) v = Fold{}(v, __shfl_down_sync(all_lanes, v, distance));
  return v;
}
// In a butterfly the lanes would sum the terms in different orders; lane 0's result is broadcast, so that all agree to
// the last bit.
template <class Fold, class T> __device__ inline T fold_warp(T v) {
  return __shfl_sync(all_lanes, fold_lanes<Fold>(v, 32), 0);
}

// All threads of a one-dimensional block of whole warps participate; `scratch` is shared memory for 32 elements and may
// be reused at once.
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
