// The epilogue of a product, per element: bias, accumulation into c, activation or its gradient, one rounding.
#pragma once

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

template <class T> struct alignas(8) Four { T v[4]; };

// Writes `count` elements of a row, at most four: four at an aligned address are one access of 8 or 16 bytes. Indices
// are constants, so that v stays in registers.
template <class T> __device__ inline void write(Dtype dtype, void* to, std::int64_t i, const float* v, int count) {
  if (dtype == f32) {
    float* p = static_cast<float*>(to) + i;
    if (count == 4 && reinterpret_cast<std::uintptr_t>(p) % 16 == 0) {
      *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j < count) p[j] = v[j];
      }
    }
  } else {
    T* p = static_cast<T*>(to) + i;
    if (count == 4 && reinterpret_cast<std::uintptr_t>(p) % 8 == 0) {
      *reinterpret_cast<Four<T>*>(p) = {T(v[0]), T(v[1]), T(v[2]), T(v[3])};
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j < count) p[j] = T(v[j]);
      }
    }
  }
}

// The same for reading.
template <class T>
__device__ inline void read_some(Dtype dtype, const void* from, std::int64_t i, float* v, int count) {
  const T* p = static_cast<const T*>(from) + i;
  if (dtype != f32 && count == 4 && reinterpret_cast<std::uintptr_t>(p) % 8 == 0) {
    const Four<T> four = *reinterpret_cast<const Four<T>*>(p);
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = static_cast<float>(four.v[j]);
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j < count) v[j] = read<T>(dtype, from, i + j);
    }
  }
}

// Finishes columns column .. column + count - 1 of one row of c.
template <class T>
__device__ inline void finish(const Gemm& g, std::int64_t item, std::int64_t row, std::int64_t column,
                              const float* sums, int count) {
  const std::int64_t index = (item * g.m + row) * g.ldc + column;
  float v[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (j >= count) break;
    v[j] = sums[j];
    if (g.bias) v[j] += static_cast<float>(static_cast<const T*>(g.bias)[column + j]);
    if (g.accumulate) v[j] += read<T>(g.out, g.c, index + j);
  }
  if (g.before_activation) write<T>(g.out, g.before_activation, index, v, count);
  if (g.activation != Activation::none) {
    float saved[4];
    if (g.saved) read_some<T>(g.out, g.saved, index, saved, count);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j >= count) break;
      if (g.out != f32) v[j] = static_cast<float>(T(v[j]));  // as if it had been stored and read again
      v[j] = g.saved ? activate_backward(v[j], saved[j], g.activation) : activate(v[j], g.activation);
    }
  }
  write<T>(g.out, g.c, index, v, count);
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
  write<T>(g.out, g.a_sums, i, &sum, 1);
}

}  // namespace mantissa::tensor_core
