// The parts of the standard library that cuda/fused.cuh and its includes need, for NVRTC, which has none. Replaces
// <bit>, <cmath>, <cstddef>, <cstdint>, <limits> and <type_traits>; never included by another compiler.
#pragma once

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;

namespace std {

using ::int16_t, ::int32_t, ::int64_t, ::int8_t, ::uint16_t, ::uint32_t, ::uint64_t, ::uint8_t;
using size_t = decltype(sizeof(0));

template <class A, class B> inline constexpr bool is_same_v = false;
template <class A> inline constexpr bool is_same_v<A, A> = true;
template <class T, class... U> inline constexpr bool is_any_v = (is_same_v<T, U> || ...);
template <class T> inline constexpr bool is_floating_point_v = is_any_v<T, float, double>;
template <class T>
inline constexpr bool is_integral_v = is_any_v<T, bool, char, signed char, unsigned char, short, unsigned short, int,
                                               unsigned, long, unsigned long, long long, unsigned long long>;
template <class T> inline constexpr bool is_signed_v = T(-1) < T(0);
template <bool, class A, class> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
template <bool first, class A, class B> using conditional_t = typename conditional<first, A, B>::type;

template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
  static constexpr float min() { return 0x1p-126f; }
  static constexpr float max() { return 0x1.fffffep127f; }
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000u); }
};
template <> struct numeric_limits<double> {
  static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000ull); }
  static constexpr double min() { return 0x1p-1022; }
  static constexpr double max() { return 0x1.fffffffffffffp1023; }
  static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000ull); }
};

template <class To, class From> constexpr To bit_cast(const From& x) { return __builtin_bit_cast(To, x); }

// CUDA's functions, which are overloaded for float and double.
using ::abs, ::acos, ::acosh, ::asin, ::asinh, ::atan, ::atan2, ::atanh, ::ceil, ::copysign, ::cos, ::cosh, ::erf,
    ::erfc, ::exp, ::exp2, ::expm1, ::floor, ::fmod, ::log, ::log10, ::log1p, ::log2, ::nearbyint, ::pow, ::sin,
    ::sinh, ::sqrt, ::tan, ::tanh, ::trunc;

}  // namespace std
