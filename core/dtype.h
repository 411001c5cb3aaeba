// The element types of a tensor, and the dispatch from a runtime dtype to a C++ type: visit().
// Next: core/half.h (the two 16-bit floats), core/tensor.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/half.h"

namespace mantissa {

enum class Dtype : std::uint8_t { f64, f32, f16, bf16, i64, i32, u8, boolean };

inline constexpr Dtype f64 = Dtype::f64, f32 = Dtype::f32, f16 = Dtype::f16, bf16 = Dtype::bf16;
inline constexpr Dtype i64 = Dtype::i64, i32 = Dtype::i32, u8 = Dtype::u8, boolean = Dtype::boolean;
inline constexpr int dtype_count = 8;

// The list that every per-dtype table is generated from: X(enumerator, C++ type).
#define MANTISSA_DTYPES(X)                                                            \
  X(f64, double) X(f32, float) X(f16, ::mantissa::Half) X(bf16, ::mantissa::BFloat16) \
  X(i64, std::int64_t) X(i32, std::int32_t) X(u8, std::uint8_t) X(boolean, bool)

template <class T> struct DtypeOf;  // DtypeOf<float>::value == f32
#define MANTISSA_X(name, type) \
  template <> struct DtypeOf<type> { static constexpr Dtype value = Dtype::name; };
MANTISSA_DTYPES(MANTISSA_X)
#undef MANTISSA_X
template <class T> inline constexpr Dtype dtype_of = DtypeOf<T>::value;

constexpr std::size_t size_of(Dtype t) {
  switch (t) {
#define MANTISSA_X(name, type) case Dtype::name: return sizeof(type);
    MANTISSA_DTYPES(MANTISSA_X)
#undef MANTISSA_X
  }
  return 0;
}
constexpr const char* name_of(Dtype t) {
  constexpr const char* names[] = {"f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"};
  return names[static_cast<int>(t)];
}
constexpr bool is_floating(Dtype t) { return t <= Dtype::bf16; }
constexpr bool is_half(Dtype t) { return t == f16 || t == bf16; }

// The dtype that arithmetic is done in: f32 for f16 and bf16, i64 for integers and bool.
constexpr Dtype compute_dtype(Dtype t) {
  return t == f64 ? f64 : is_floating(t) ? f32 : i64;
}

// The dtype of `a op b`. Float with float gives the wider (f16 with bf16 gives f32), integer with float the float,
// integer with integer the wider; bool adopts the other's dtype.
constexpr Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (is_half(a) && is_half(b)) return f32;
  if (is_floating(a) || is_floating(b)) return a < b ? a : b;  // the enum is ordered widest first
  return a < b ? a : b;
}

// Calls f.template operator()<T>() with the C++ type of `t`.
template <class F> decltype(auto) visit(Dtype t, F&& f) {
  switch (t) {
#define MANTISSA_X(name, type) case Dtype::name: return f.template operator()<type>();
    MANTISSA_DTYPES(MANTISSA_X)
#undef MANTISSA_X
  }
  __builtin_unreachable();
}
// The same over the four floating types only; `t` must be one of them.
template <class F> decltype(auto) visit_floating(Dtype t, F&& f) {
  switch (t) {
    case Dtype::f64: return f.template operator()<double>();
    case Dtype::f16: return f.template operator()<Half>();
    case Dtype::bf16: return f.template operator()<BFloat16>();
    default: return f.template operator()<float>();
  }
}

// The C++ type kernels accumulate in for elements of type T.
template <class T> struct ComputeOf { using type = std::int64_t; };
template <> struct ComputeOf<double> { using type = double; };
template <> struct ComputeOf<float> { using type = float; };
template <> struct ComputeOf<Half> { using type = float; };
template <> struct ComputeOf<BFloat16> { using type = float; };
template <class T> using Compute = typename ComputeOf<T>::type;

}  // namespace mantissa
