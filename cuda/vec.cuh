// Elements of any dtype in registers: conversion, single elements and packs of eight, moved 16 bytes at a time. Kernels
// are instantiated per compute type (f32, f64, i64); the stored dtype is a run-time value, and branches on it are
// uniform across threads.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/dtype.h"

namespace mantissa::cuda_backend {

// Like the CPU's conversion (core/cpu/simd.h): float to integer saturates, NaN gives 0, any nonzero value is true.
template <class To, class From> __device__ inline To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    constexpr To lowest = std::is_signed_v<To> ? To(To(1) << (8 * sizeof(To) - 1)) : To(0), highest = To(~lowest);
    if (!(x == x)) return 0;
    if (x <= static_cast<From>(lowest)) return lowest;
    if (x >= static_cast<From>(highest)) return highest;
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}
// Converts a stored element to its compute type, and back.
template <class C, class T> __device__ inline C widen(T x) { return convert<C>(static_cast<Compute<T>>(x)); }

// Calls f(T()) with the C++ type of `t`.
template <class F> __device__ inline void visit_dtype(Dtype t, F&& f) {
  switch (t) {
    case Dtype::f64: return f(double());
    case Dtype::f32: return f(float());
    case Dtype::f16: return f(Half());
    case Dtype::bf16: return f(BFloat16());
    case Dtype::i64: return f(std::int64_t());
    case Dtype::i32: return f(std::int32_t());
    case Dtype::u8: return f(std::uint8_t());
    case Dtype::boolean: return f(bool());
  }
}

template <class C> __device__ inline C load_element(const void* p, Dtype t, std::int64_t i) {
  C value{};
  visit_dtype(t, [&]<class T>(T) { value = widen<C>(static_cast<const T*>(p)[i]); });
  return value;
}
template <class C> __device__ inline void store_element(void* p, Dtype t, std::int64_t i, C value) {
  visit_dtype(t, [&]<class T>(T) { static_cast<T*>(p)[i] = convert<T>(value); });
}

// The value after rounding to the stored dtype `t`.
template <class C> __device__ inline C rounded_to(Dtype t, C v) {
  if (t == Dtype::f16) return widen<C>(convert<Half>(v));
  if (t == Dtype::bf16) return widen<C>(convert<BFloat16>(v));
  return v;
}
// a + b, never contracted with the product that computed a into an FMA: for sums that must match two separate kernels
// bitwise.
__device__ inline float add_apart(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double add_apart(double a, double b) { return __dadd_rn(a, b); }

inline constexpr int pack = 8;  // elements of a thread
// Where they are: two quads of four neighbours, `apart` elements from each other. Quads that are neighbours (4 apart)
// are one access of 16 bytes in f16 and bf16. Of f32 every quad is one: if a thread's were neighbours, an access by a
// warp would cover only half of each sector of 32 bytes. So the quads of four threads can be interleaved: their first
// ones are neighbours, which f32 and f16 both access as whole sectors, and then come their second ones.
struct Quads {
  std::int64_t first = 0;
  int apart = pack / 2;
  Quads() = default;
  __device__ Quads(std::int64_t first, int apart = pack / 2) : first(first), apart(apart) {}
  __device__ std::int64_t operator[](int k) const { return first + k + (k < pack / 2 ? 0 : apart - pack / 2); }
};
__device__ inline Quads operator+(std::int64_t start, const Quads& at) { return {start + at.first, at.apart}; }

inline constexpr int interleaved = 4 * pack;  // elements of the four threads, neighbours
// Of a thread whose pack is at i, a multiple of 8 that is larger by 8 in the next thread.
__device__ inline Quads interleave(std::int64_t i) {
  return {i - threadIdx.x % 4 * (pack / 2), interleaved / 2};
}

// A block's threads divide `count` elements, at most eight each, that begin at `begin`, a multiple of 32: the part of
// this thread. One thread may have less than a pack, to be processed one element at a time.
struct Share {
  Quads at;
  int count;
};
__device__ inline Share share_of(std::int64_t begin, unsigned count, bool interleaves) {
  const unsigned i = threadIdx.x * pack;
  if (i + pack > count) return {begin + i, i < count ? static_cast<int>(count - i) : 0};
  const bool complete = i / interleaved * interleaved + interleaved <= count;
  return {interleaves && complete ? interleave(begin + i) : Quads(begin + i), pack};
}

template <class T, int n> struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Neighbours { T v[n]; };
template <class T> using Pack = Neighbours<T, pack>;
template <class T> struct TwoQuads { Neighbours<T, pack / 2> of[2]; };

// The dtypes of has_packs (cuda/elementwise.h). Kernels without small integers generate less code with
// `only_floats`.
template <class C, bool only_floats, class F> __device__ inline void visit_packed(Dtype t, F&& f) {
  if constexpr (std::is_same_v<C, float>) {
    if (t == Dtype::f32) f(float());
    else if (t == Dtype::bf16) f(BFloat16());
    else if (only_floats || t == Dtype::f16) f(Half());
    else if (t == Dtype::u8) f(std::uint8_t());
    else f(bool());
  } else if constexpr (std::is_same_v<C, double>) {
    if (t == Dtype::f64) f(double());
    else f(bool());
  } else {
    if (t == Dtype::i64) f(std::int64_t());
    else if (t == Dtype::i32) f(std::int32_t());
    else if (t == Dtype::u8) f(std::uint8_t());
    else f(bool());
  }
}

// Aligned: `at.first` and `at.apart` are multiples of 4, or of 8 if neighbours.
template <bool only_floats = false, class C>
__device__ inline void load_pack(C (&to)[pack], const void* p, Dtype t, const Quads& at) {
  visit_packed<C, only_floats>(t, [&]<class T>(T) {
    using Quad = Neighbours<T, pack / 2>;
    const T* const from = static_cast<const T*>(p) + at.first;
    Pack<T> packed;
    if (sizeof(T) < 4 && at.apart == pack / 2) {
      packed = *reinterpret_cast<const Pack<T>*>(from);
    } else {
      packed = __builtin_bit_cast(Pack<T>, TwoQuads<T>{{*reinterpret_cast<const Quad*>(from),
                                                        *reinterpret_cast<const Quad*>(from + at.apart)}});
    }
#pragma unroll
    for (int k = 0; k < pack; ++k) to[k] = widen<C>(packed.v[k]);
  });
}
// By intrinsics, which stay whole: nvcc merges the ends of branches that store, and an assignment in one of them then
// becomes single elements.
template <class T, int n> __device__ inline void store_whole(T* to, const Neighbours<T, n>& from) {
  constexpr unsigned bytes = sizeof from;
  using Small = std::conditional_t<bytes == 2, unsigned short, unsigned>;
  using Word = std::conditional_t<bytes <= 4, Small, std::conditional_t<bytes == 8, uint2, uint4>>;
  struct Words { Word of[bytes / sizeof(Word)]; };
  const auto words = __builtin_bit_cast(Words, from);
#pragma unroll
  for (unsigned k = 0; k < bytes / sizeof(Word); ++k) __stwb(reinterpret_cast<Word*>(to) + k, words.of[k]);
}
template <bool only_floats = false, class C>
__device__ inline void store_pack(void* p, Dtype t, const Quads& at, const C (&from)[pack]) {
  visit_packed<C, only_floats>(t, [&]<class T>(T) {
    Pack<T> packed;
#pragma unroll
    for (int k = 0; k < pack; ++k) packed.v[k] = convert<T>(from[k]);
    T* const to = static_cast<T*>(p) + at.first;
    if (sizeof(T) < 4 && at.apart == pack / 2) return store_whole(to, packed);
    static_assert(sizeof(TwoQuads<T>) == sizeof packed);  // nvcc 12.4 needs its size before the next line
    const auto quads = __builtin_bit_cast(TwoQuads<T>, packed);
    store_whole(to, quads.of[0]);
    store_whole(to + at.apart, quads.of[1]);
  });
}

// Host: calls f.template operator()<C>() with the compute type of floating dtype `t`. Write f as [&]<class C>() { ...
// }: without the () nvcc 12.4 confuses C with another template's name.
template <class F> void visit_compute(Dtype t, F&& f) {
  if (t == f64) f.template operator()<double>();
  else f.template operator()<float>();
}
// The same for any dtype: integers are computed in i64.
template <class F> void visit_compute_any(Dtype t, F&& f) {
  switch (compute_dtype(t)) {
    case Dtype::f64: return f.template operator()<double>();
    case Dtype::f32: return f.template operator()<float>();
    default: return f.template operator()<std::int64_t>();
  }
}

}  // namespace mantissa::cuda_backend
