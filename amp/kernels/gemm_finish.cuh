// The epilogue of a product, per element: bias, accumulation into c, activation or its gradient, one rounding.
#pragma once

#include <bit>

#include "amp/kernels/gemm.h"
#include "core/half.h"
#include "core/pointwise.h"
#include "cuda/launch.cuh"

namespace mantissa::tensor_core {

// The same formulas as the elementwise operators, for bitwise equal results.
template <class C> __device__ inline C activate(C x, Activation activation) {
  switch (activation) {
    case Activation::relu: return pointwise::Relu().f(x);
    case Activation::gelu: return pointwise::Gelu().f(x);
    case Activation::gelu_tanh: return pointwise::GeluTanh().f(x);
    default: return x;
  }
}

template <class C> __device__ inline C activate_backward(C gradient, C saved, Activation activation) {
  switch (activation) {
    case Activation::relu: return pointwise::Relu().df(gradient, saved);
    case Activation::gelu: return pointwise::Gelu().df(gradient, saved);
    case Activation::gelu_tanh: return pointwise::GeluTanh().df(gradient, saved);
    default: return gradient;
  }
}

template <class T> __device__ inline float read(Dtype dtype, const void* from, std::int64_t i) {
  return dtype == f32 ? static_cast<const float*>(from)[i] : static_cast<float>(static_cast<const T*>(from)[i]);
}

// Four neighbours in one access of 8 or 16 bytes. The intrinsics make sure of that: nvcc merged four stores of one
// branch with those of another, and then stored them one by one.
template <class T> struct alignas(8) Four { T v[4]; };
template <class T> __device__ inline bool is_aligned_four(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (4 * sizeof(T)) == 0;
}
__device__ inline void load_four(const float* p, float (&v)[4]) {
  const float4 four = __ldca(reinterpret_cast<const float4*>(p));
  v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
}
template <class T> __device__ inline void load_four(const T* p, float (&v)[4]) {
  const auto four = std::bit_cast<Four<T>>(__ldca(reinterpret_cast<const uint2*>(p)));
#pragma unroll
  for (int j = 0; j < 4; ++j) v[j] = static_cast<float>(four.v[j]);
}
__device__ inline void store_four(float* p, const float (&v)[4]) {
  __stwb(reinterpret_cast<float4*>(p), make_float4(v[0], v[1], v[2], v[3]));
}
template <class T> __device__ inline void store_four(T* p, const float (&v)[4]) {
  const Four<T> four{{T(v[0]), T(v[1]), T(v[2]), T(v[3])}};
  __stwb(reinterpret_cast<uint2*>(p), std::bit_cast<uint2>(four));
}

// `count` elements of a row, at most four: in one access if there are four at an aligned address. Indices are
// constants, so that v stays in registers.
template <class T> __device__ inline void read_some(const T* p, float (&v)[4], int count) {
  if (count == 4 && is_aligned_four(p)) return load_four(p, v);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (j < count) v[j] = static_cast<float>(p[j]);
  }
}
template <class T> __device__ inline void write_some(T* p, const float (&v)[4], int count) {
  if (count == 4 && is_aligned_four(p)) return store_four(p, v);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (j < count) p[j] = T(v[j]);
  }
}
// The same for f32 or T, whichever dtype is.
template <class T>
__device__ inline void read_some(Dtype dtype, const void* from, std::int64_t i, float (&v)[4], int count) {
  if (dtype == f32) read_some(static_cast<const float*>(from) + i, v, count);
  else read_some(static_cast<const T*>(from) + i, v, count);
}
template <class T>
__device__ inline void write_some(Dtype dtype, void* to, std::int64_t i, const float (&v)[4], int count) {
  if (dtype == f32) write_some(static_cast<float*>(to) + i, v, count);
  else write_some(static_cast<T*>(to) + i, v, count);
}

// Finishes columns column .. column + count - 1 of one row of c.
template <class T>
__device__ inline void finish(const Gemm& g, std::int64_t item, std::int64_t row, std::int64_t column,
                              const float* sums, int count) {
  const std::int64_t index = (item * g.m + row) * g.ldc + column;
  float v[4], more[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) v[j] = j < count ? sums[j] : 0;
  const auto add = [&] {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j < count) v[j] += more[j];
    }
  };
  if (g.bias) {
    read_some(static_cast<const T*>(g.bias) + column, more, count);
    add();
  }
  if (g.accumulate) {
    read_some<T>(g.out, g.c, index, more, count);
    add();
  }
  if (g.before_activation) write_some<T>(g.out, g.before_activation, index, v, count);
  if (g.activation != Activation::none) {
    if (g.saved) read_some<T>(g.out, g.saved, index, more, count);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j >= count) break;
      if (g.out != f32) v[j] = static_cast<float>(T(v[j]));  // as if it had been stored and read again
      v[j] = g.saved ? activate_backward(v[j], more[j], g.activation) : activate(v[j], g.activation);
    }
  }
  write_some<T>(g.out, g.c, index, v, count);
}

template <class T>
__device__ inline void finish_four(const Gemm& g, std::int64_t item, std::int64_t row, std::int64_t column,
                                   const float* sums) {
  finish<T>(g, item, row, column, sums, g.n - column < 4 ? static_cast<int>(g.n - column) : 4);
}
template <class T>
__device__ inline void finish_one(const Gemm& g, std::int64_t item, std::int64_t row, std::int64_t column, float sum) {
  finish<T>(g, item, row, column, &sum, 1);
}

template <class T> __device__ inline void finish_a_sum(const Gemm& g, std::int64_t i, float sum) {
  if (g.accumulate) sum += read<T>(g.out, g.a_sums, i);
  if (g.out == f32) static_cast<float*>(g.a_sums)[i] = sum;
  else static_cast<T*>(g.a_sums)[i] = T(sum);
}

}  // namespace mantissa::tensor_core
