// The kernels of a fused program, around the formulas that cuda/fused_text.cpp writes: P::run<C>(x, y) makes the
// outputs of one element of the inputs. Compiled at run time by NVRTC, and under the CPU shim by the C++ compiler.
#pragma once

#if defined(MANTISSA_CUDA_SHIM)
#include <cuda_runtime.h>
#endif

#include "core/pointwise.h"
#include "cuda/vec.cuh"
#include "cuda/walk.cuh"

namespace mantissa::cuda_backend {

// A double by its bits, and a formula by its parameters, which lie at its end.
__device__ inline double number(unsigned long long bits) { return __builtin_bit_cast(double, bits); }
template <class F, class... P> __device__ inline F formula(P... parameters) {
  F f;
  if constexpr (sizeof...(P) > 0) {
    const double values[] = {parameters...};
    double* const to = reinterpret_cast<double*>(&f) + (sizeof(F) - sizeof values) / sizeof(double);
#pragma unroll
    for (unsigned k = 0; k < sizeof...(P); ++k) to[k] = values[k];
  }
  return f;
}

// One thread, eight neighbours; as pack_kernel of cuda/elementwise.cuh.
template <class P, class C> __device__ inline void fused_packs(const Walk<P::outputs + P::inputs - 1>& walk) {
  const unsigned first = (blockIdx.x * blockDim.x + threadIdx.x) * pack;
  if (first >= walk.count) return;
  std::int64_t at[P::outputs + P::inputs];
  walk.offsets(first, at);
  if (walk.count - first < pack) {  // the last few, one at a time
    for (unsigned j = 0; first + j < walk.count; ++j) {
      C x[P::inputs], y[P::outputs];
#pragma unroll
      for (int k = 0; k < P::inputs; ++k) {
        const auto& o = walk.operand[P::outputs + k];
        x[k] = o.constant ? constant_of<C>(o) : load_element<C>(o.data, o.dtype, at[P::outputs + k] + j * o.strides[0]);
      }
      P::template run<C>(x, y);
#pragma unroll
      for (int k = 0; k < P::outputs; ++k) store_element(walk.operand[k].data, walk.operand[k].dtype, at[k] + j, y[k]);
    }
    return;
  }
  C x[P::inputs][pack], y[P::outputs][pack];
#pragma unroll
  for (int k = 0; k < P::inputs; ++k) {
    const auto& o = walk.operand[P::outputs + k];
    if (o.constant || o.strides[0] == 0) {
      const C v = o.constant ? constant_of<C>(o) : load_element<C>(o.data, o.dtype, at[P::outputs + k]);
#pragma unroll
      for (int j = 0; j < pack; ++j) x[k][j] = v;
    } else {
      load_pack(x[k], o.data, o.dtype, at[P::outputs + k]);
    }
  }
#pragma unroll
  for (int j = 0; j < pack; ++j) {
    C in[P::inputs], out[P::outputs];
#pragma unroll
    for (int k = 0; k < P::inputs; ++k) in[k] = x[k][j];
    P::template run<C>(in, out);
#pragma unroll
    for (int k = 0; k < P::outputs; ++k) y[k][j] = out[k];
  }
#pragma unroll
  for (int k = 0; k < P::outputs; ++k) store_pack(walk.operand[k].data, walk.operand[k].dtype, at[k], y[k]);
}

// Any strides, one element after another.
template <class P, class C> __device__ inline void fused_elements(const Walk<P::outputs + P::inputs - 1>& walk) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < walk.count; i += gridDim.x * blockDim.x) {
    std::int64_t at[P::outputs + P::inputs];
    walk.offsets(i, at);
    C x[P::inputs], y[P::outputs];
#pragma unroll
    for (int k = 0; k < P::inputs; ++k) {
      const auto& o = walk.operand[P::outputs + k];
      x[k] = o.constant ? constant_of<C>(o) : load_element<C>(o.data, o.dtype, at[P::outputs + k]);
    }
    P::template run<C>(x, y);
#pragma unroll
    for (int k = 0; k < P::outputs; ++k) store_element(walk.operand[k].data, walk.operand[k].dtype, at[k], y[k]);
  }
}

}  // namespace mantissa::cuda_backend
