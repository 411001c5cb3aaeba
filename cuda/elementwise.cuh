// Elementwise kernels for any formula: y[i] = f(x0[i], x1[i], ...), whatever the dtypes and strides.
// If all operands are iterated in the same order and the innermost dimension is contiguous, a thread processes packs of
// eight elements, in f64 of two; otherwise one element at a time. Launches index with 32 bits; larger tensors are
// split.
#pragma once

#include "cuda/elementwise.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"
#include "cuda/walk.cuh"

namespace mantissa::cuda_backend {

template <class F, class T> inline constexpr int arity_of = [] {
  if constexpr (requires(const F f, T t) { f.template f<T>(t); }) return 1;
  else if constexpr (requires(const F f, T t) { f.template f<T>(t, t); }) return 2;
  else return 3;
}();
template <class F, class C, int arity> __device__ inline C call_formula(const F& f, const C (&v)[arity]) {
  if constexpr (arity == 1) return f.template f<C>(v[0]);
  else if constexpr (arity == 2) return f.template f<C>(v[0], v[1]);
  else return f.template f<C>(v[0], v[1], v[2]);
}

// Packs of eight. Innermost strides are 1, or 0 for a broadcast operand.
template <class F, class C, int arity> __global__ void pack_kernel(F f, Walk<arity> walk) {
  wait_for_previous_kernel();
  Quads at[arity + 1];
  const Share share = walk.share(at);
  if (share.count == 0) return;
  const auto& out = walk.operand[0];
  if (share.count < pack) {  // the last few elements, one at a time
    for (int j = 0; j < share.count; ++j) {
      C v[arity];
#pragma unroll
      for (int k = 0; k < arity; ++k) {
        const auto& o = walk.operand[k + 1];
        v[k] = o.constant ? constant_of<C>(o) : load_element<C>(o.data, o.dtype, at[k + 1].first + j * o.strides[0]);
      }
      store_element(out.data, out.dtype, at[0].first + j, call_formula<F, C, arity>(f, v));
    }
    return;
  }
  C x[arity][pack], y[pack];
#pragma unroll
  for (int k = 0; k < arity; ++k) load_operand(x[k], walk.operand[k + 1], at[k + 1]);
#pragma unroll
  for (int j = 0; j < pack; ++j) {
    C v[arity];
#pragma unroll
    for (int k = 0; k < arity; ++k) v[k] = x[k][j];
    y[j] = call_formula<F, C, arity>(f, v);
  }
  store_pack(out.data, out.dtype, at[0], y);
}

template <class F, class C, int arity> __global__ void element_kernel(F f, Walk<arity> walk) {
  wait_for_previous_kernel();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < walk.count; i += gridDim.x * blockDim.x) {
    std::int64_t at[arity + 1];
    walk.offsets(i, at);
    C v[arity];
#pragma unroll
    for (int k = 0; k < arity; ++k) {
      const auto& o = walk.operand[k + 1];
      v[k] = o.constant ? constant_of<C>(o) : load_element<C>(o.data, o.dtype, at[k + 1]);
    }
    store_element(walk.operand[0].data, walk.operand[0].dtype, at[0], call_formula<F, C, arity>(f, v));
  }
}

// One element of an operand in f64, or two neighbours in one access.
template <class Operand>
__device__ inline Neighbours<double, 2> load_some(const Operand& o, std::int64_t at, int count) {
  if (count == 2 && !o.constant && o.strides[0] != 0) {
    Neighbours<double, 2> two;
    visit_packed<double, false>(o.dtype, [&]<class T>(T) {
      const auto stored = *reinterpret_cast<const Neighbours<T, 2>*>(static_cast<const T*>(o.data) + at);
      two = {{widen<double>(stored.v[0]), widen<double>(stored.v[1])}};
    });
    return two;
  }
  const double one = o.constant ? o.value : load_element<double>(o.data, o.dtype, at);
  return {{one, one}};
}
template <class Operand>
__device__ inline void store_some(const Operand& o, std::int64_t at, int count, const Neighbours<double, 2>& y) {
  if (count == 1) return store_element(o.data, o.dtype, at, y.v[0]);
  visit_packed<double, false>(o.dtype, [&]<class T>(T) {
    store_whole(static_cast<T*>(o.data) + at, Neighbours<T, 2>{{convert<T>(y.v[0]), convert<T>(y.v[1])}});
  });
}

// f64, with two neighbours at a time if `pairs`: an access of 16 bytes. Functions in f64 are long, so there is one copy
// of the formula for both, and for single elements.
template <class F, int arity> __global__ void f64_kernel(F f, Walk<arity> walk, bool pairs) {
  wait_for_previous_kernel();
  const unsigned each = pairs ? 2 : 1, first = (blockIdx.x * blockDim.x + threadIdx.x) * each;
  for (unsigned i = first; i < walk.count; i += gridDim.x * blockDim.x * each) {
    const int count = pairs && i + 1 < walk.count ? 2 : 1;
    std::int64_t at[arity + 1];
    walk.offsets(i, at);
    Neighbours<double, 2> x[arity], y{};
#pragma unroll
    for (int k = 0; k < arity; ++k) x[k] = load_some(walk.operand[k + 1], at[k + 1], count);
#pragma unroll 1
    for (int j = 0; j < count; ++j) {
      double v[arity];
#pragma unroll
      for (int k = 0; k < arity; ++k) v[k] = j == 0 ? x[k].v[0] : x[k].v[1];
      (j == 0 ? y.v[0] : y.v[1]) = call_formula<F, double, arity>(f, v);
    }
    store_some(walk.operand[0], at[0], count, y);
  }
}

// packs: false if the result's dtype never allows them, so that no kernel is made that cannot be launched.
template <class F, class C, int arity, bool packs = true>
void launch_elementwise(const char* name, const F& f, const ElementwiseLoop& loop) {
  struct State { const char* name; const F& f; };
  const State state{name, f};
  for_indexable_parts(loop, [](const void* s, const ElementwiseLoop& part) {
    const State& st = *static_cast<const State*>(s);
    const Walk<arity> walk = walk_of<arity>(part);
    if constexpr (std::is_same_v<C, double>) {
      const bool pairs = packs && can_use_packs(part, f64);
      launch(st.name, &f64_kernel<F, arity>, grid_for(walk.count, 4), st.f, walk, pairs);
    } else {
      if constexpr (packs) {
        if (can_use_packs(part, dtype_of<C>))
          return launch(st.name, &pack_kernel<F, C, arity>, grid_for(walk.count, pack), st.f, walk);
      }
      launch(st.name, &element_kernel<F, C, arity>, grid_for(walk.count, 4), st.f, walk);
    }
  }, &state);
}

}  // namespace mantissa::cuda_backend
