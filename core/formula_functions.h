// Functions called by the formulas of core/pointwise.h, for numbers and for SIMD vectors: the names of <cmath>, and
// functions that vector libraries lack, or compute less accurately or more slowly than a fitted polynomial.
// (For tensors see core/ops.h.)
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/host_device.h"

#if defined(__FMA__)
#include <immintrin.h>
#endif

namespace mantissa::pointwise {

// For numbers. For vectors and tensors the functions named as in <cmath> are found by argument-dependent lookup.
#define MANTISSA_FUNCTIONS(X)                                                                    \
  X(exp) X(exp2) X(expm1) X(log) X(log1p) X(log2) X(log10) X(sqrt) X(erf) X(erfc) X(abs)         \
  X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) \
  X(floor) X(ceil) X(trunc) X(nearbyint)
#define MANTISSA_SCALAR(f)                                  \
  MANTISSA_HD inline float f(float x) { return std::f(x); } \
  MANTISSA_HD inline double f(double x) { return std::f(x); }
MANTISSA_FUNCTIONS(MANTISSA_SCALAR)
#undef MANTISSA_SCALAR
#undef MANTISSA_FUNCTIONS
#define MANTISSA_SCALAR(T)                                               \
  MANTISSA_HD inline T pow(T a, T b) { return std::pow(a, b); }          \
  MANTISSA_HD inline T exact_fmod(T a, T b) { return std::fmod(a, b); }  \
  MANTISSA_HD inline T exact_atan2(T a, T b) { return std::atan2(a, b); } \
  MANTISSA_HD inline T copysign(T a, T b) { return std::copysign(a, b); } \
  MANTISSA_HD inline T exact_erfc(T x) { return std::erfc(x); }          \
  MANTISSA_HD inline T select(bool c, T a, T b) { return c ? a : b; }
MANTISSA_SCALAR(float)
MANTISSA_SCALAR(double)
#undef MANTISSA_SCALAR
#define MANTISSA_INTEGER(f) MANTISSA_HD inline std::int64_t f(std::int64_t x) { return x; }
MANTISSA_INTEGER(floor)
MANTISSA_INTEGER(ceil)
MANTISSA_INTEGER(trunc)
MANTISSA_INTEGER(nearbyint)
#undef MANTISSA_INTEGER
MANTISSA_HD inline std::int64_t select(bool c, std::int64_t a, std::int64_t b) { return c ? a : b; }
MANTISSA_HD inline std::int64_t abs(std::int64_t x) { return x < 0 ? -x : x; }
// -1 is a special case because the smallest integer % -1 traps; operators reject a divisor of 0.
MANTISSA_HD inline std::int64_t exact_fmod(std::int64_t a, std::int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

MANTISSA_HD inline std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {  // likewise
  if (b == 0) return 0;
  if (b == -1) return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  const std::int64_t quotient = a / b;
  return quotient - (quotient * b != a && (a < 0) != (b < 0));
}

template <class V> concept Vector = requires(V v, typename V::value_type* p) { v.store_unaligned(p); };
// For functions that the vector library lacks or computes less accurately: lane by lane.
template <Vector V, class F> inline V lanewise(const V& a, const V& b, F f) {
  typename V::value_type x[V::size], y[V::size];
  a.store_unaligned(x);
  b.store_unaligned(y);
  for (std::size_t i = 0; i < V::size; ++i) x[i] = f(x[i], y[i]);
  return V::load_unaligned(x);
}
#if defined(__FMA__)
// x - whole * y with one rounding. Where the vector library has no fnma instruction, it multiplies and subtracts, which
// the compiler may or may not contract.
template <Vector V> inline V exact_remainder(const V& x, const V& whole, const V& y) {
  constexpr bool wide = sizeof(typename V::value_type) == 8;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    if constexpr (wide) return V(_mm512_fnmadd_pd(whole, y, x));
    else return V(_mm512_fnmadd_ps(whole, y, x));
  } else
#endif
  if constexpr (wide) return V(_mm256_fnmadd_pd(whole, y, x));
  else return V(_mm256_fnmadd_ps(whole, y, x));
}
#endif
// If the quotient's integer part is exact, or one too large because the quotient was rounded up, the remainder of a is
// computed without rounding. Other quotients, and those near 0, infinite or NaN, are handled lane by lane.
template <Vector V> inline V exact_fmod(const V& a, const V& b) {
#if defined(__FMA__)
  using C = typename V::value_type;
  constexpr bool wide = sizeof(C) == 8;
  const V x = abs(a), y = abs(b), quotient = x / y;
  const V most(static_cast<C>(wide ? 0x1p52 : 0x1p23)), least(static_cast<C>(wide ? 0x1p-900 : 0x1p-100));
  if (all((quotient < most) & (y > least) & (y < V(std::numeric_limits<C>::infinity())))) {
    const V rest = exact_remainder(x, trunc(quotient), y);
    return select(x < y, a, copysign(select(rest < V(C(0)), rest + y, rest), a));
  }
#endif
  return lanewise(a, b, [](auto x, auto y) { return exact_fmod(x, y); });
}
template <Vector V> inline V exact_pow(const V& a, const V& b) {
  return lanewise(a, b, [](auto x, auto y) { return std::pow(x, y); });
}
// Vector atan2 by octants: the arctangent of the smaller over the larger, corrected for the rounding of pi / 2 and pi.
template <Vector V> inline V exact_atan2(const V& a, const V& b) {
  using C = typename V::value_type;
  constexpr double quarter = 1.5707963267948966;  // less than pi / 2 by 6.123e-17
  constexpr C lost = static_cast<C>(quarter - static_cast<double>(static_cast<C>(quarter)) + 6.123233995736766e-17);
  const V y = abs(a), x = abs(b), large = max(x, y), small = min(x, y);
  const V same = select(large == V(0), V(0), V(1));  // 0 / 0 is replaced by 0, inf / inf by 1
  const V angle = atan(select(small == large, same, small / large));
  const V turned = copysign(angle, copysign(V(1), b));  // negative for b < 0
  const V half = select(y > x, V(C(quarter)) - (turned - V(lost)),
                        select(copysign(V(1), b) < V(0), V(C(2 * quarter)) + (turned + V(2 * lost)), turned));
  return select((a == a) & (b == b), copysign(half, a), a + b);
}
// The vector erf of f64 squares x, which may overflow; erf(9) is already 1.
template <class T> MANTISSA_HD inline T bounded_erf(T x) {
  if constexpr (Vector<T>) {
    if constexpr (sizeof(typename T::value_type) == 8) return select(x > T(9), T(1), select(x < T(-9), T(-1), erf(x)));
  }
  return erf(x);
}

// The vector expm1 gives 0 for -0; this one keeps -0.
template <class T> MANTISSA_HD inline T signed_expm1(T x) { return select(x == T(0), x, expm1(x)); }
// The vector floor, ceil and trunc of the baseline instruction set give 0 where -0 is right.
template <class T> MANTISSA_HD inline T signed_zero(T x, T rounded) {
  return select(rounded == T(0), x * T(0), rounded);
}

// The normal CDF for vectors of f32, cheaper than by erf. For x < 0 it is the power -16 of a polynomial, fitted
// on [0, 6.5] such that x times the CDF is accurate to 2e-10 + a relative 2e-7. Beyond, both vanish. With rounding, x
// times the CDF has an error of at most 5e-7 there.
template <class T> inline constexpr bool has_vector_normal_cdf = false;
template <Vector V> inline constexpr bool has_vector_normal_cdf<V> = sizeof(typename V::value_type) == 4;
template <Vector V> inline V normal_cdf(const V& x) {
  const V z = abs(x), z2 = z * z;
  // evaluated in pairs to shorten the dependency chain
  const V low = (V(3.43391905e-3f) * z + V(2.20729050e-2f)) * z2 + (V(5.20755313e-2f) * z + V(1.04427385f));
  V high = V(1.54439917e-7f) * z2 + (V(-1.05264905e-6f) * z + V(7.26142525e-6f));
  high = high * z2 + (V(5.40415567e-5f) * z + V(2.85186979e-5f));
  V p = high * (z2 * z2) + low;
  p = p * p, p = p * p, p = p * p, p = p * p;
  const V tail = V(1) / p;
  return select(x > V(0), V(1) - tail, tail);
}
// The normal CDF given density = exp(-x^2 / 2): for x < 0 the density times a rational function, fitted to a relative
// 6e-9 on [0, 14]. Beyond, both are 0.
template <Vector V> inline V normal_cdf(const V& x, const V& density) {
  const V z = min(abs(x), V(14));
  V p = ((V(4.0775277e-3f) * z + V(4.0372034e-2f)) * z + V(1.82460336e-1f)) * z + V(4.37248969e-1f);
  V q = ((V(1.02207175e-2f) * z + V(1.01204492e-1f)) * z + V(4.6742514e-1f)) * z + V(1.19928465f);
  p = p * z + V(0.5f), q = (q * z + V(1.67238289f)) * z + V(1);
  const V tail = density * p / q;
  return select(x > V(0), V(1) - tail, tail);
}
// exp(x^2) erfc(x) for x >= 0 in f64: a polynomial in (x - 3.75) / (x + 3.75), which is in [-1, 1], divided by 1 + 2 x.
// Fitted with 50 digits to a relative 8e-17; with rounding, about 4e-16.
template <class T> MANTISSA_HD inline T scaled_erfc(T x) {
  const double c[] = {
      1.2375126308378275, -0.14024059858554697, 0.0035854154854790257, 0.0822767384901452, -0.10880393014244462,
      0.09230432116037748, -0.05869339857664934, 0.028362277418956406, -0.009746579683265262, 0.0017556258528952954,
      2.93714378044958e-4, -2.901540805408417e-4, 5.164652974177416e-5, 2.238423915508223e-5, -1.1438048033346894e-5,
      -9.73559896736775e-7, 1.7419821586224816e-6, -5.7218230603224086e-8, -2.4857126248016745e-7,
      2.3263508708859124e-8, 3.197926671666804e-8, -3.744210080962018e-9, -2.623107347133476e-9,
      3.1114333809799254e-10};
  const T t = T(1) - T(7.5) / (x + T(3.75)), square = t * t;
  T even(c[22]), odd(c[23]);
  for (int k = 20; k >= 0; k -= 2) even = even * square + T(c[k]), odd = odd * square + T(c[k + 1]);
  return (odd * t + even) / (T(1) + T(2) * x);
}
// erf(x) / x for x^2 <= 1/4 in f64: a polynomial, fitted with 50 digits to a relative 4e-18.
template <class T> MANTISSA_HD inline T erf_over_x(T square) {
  const double c[] = {1.1283791670955126, -0.37612638903183476, 0.11283791670925457, -0.026866170632921085,
                      0.005223977373542183, -8.548297798086192e-4, 1.2053337222877719e-4, -1.4845900896375835e-5,
                      1.4726381680017032e-6};
  T sum(c[8]);
  for (int k = 7; k >= 0; --k) sum = sum * square + T(c[k]);
  return sum;
}
// The rounding error of x squared, computed from a part of x whose square is exact.
template <class T> MANTISSA_HD inline T lost_by_square(T x, T square, T steps) {
  const T part = nearbyint(x * steps) / steps;
  return (part * part - square) + (x - part) * (x + part);
}
// Vector erfc. f32: the rational function of normal_cdf. f64: accurate down to the smallest denormal, for which the
// exponential is scaled so as not to be denormal itself.
template <Vector V> inline V exact_erfc(const V& x) {
  if constexpr (has_vector_normal_cdf<V>) {
    const V square = x * x, rest = select(square < V(200), lost_by_square(x, square, V(128)), V(0));
    return V(2) * normal_cdf(x * V(-1.41421356f), exp(-square) * (V(1) - rest));
  } else {
    const V size = abs(x), z = select(size < V(28), size, V(28)), square = z * z;
    const auto tiny = square > V(600);
    const V density = exp(select(tiny, V(64), V(0)) - square) * (V(1) - lost_by_square(z, square, V(1048576)));
    const V tail = density * scaled_erfc(z) * select(tiny, V(1.603810890548638e-28), V(1));  // exp(-64)
    const V far = select(x < V(0), V(2) - tail, tail);
    return select(size < V(0.5), V(1) - x * erf_over_x(square), select(x == x, far, x));
  }
}

// Vector erfinv for f32: x times a polynomial in w = -log(1 - x^2), fitted to a relative 6e-9 for w < 5, and beyond one
// in sqrt(w), fitted to 8e-8.
template <Vector V> inline V fitted_erfinv(const V& x) {
  const auto polynomial = [](const V& t, const auto&... c) {
    V p(0);
    ((p = p * t + V(c)), ...);
    return p;
  };
  const V w = V(0) - log((V(1) - x) * (V(1) + x));
  const V near = polynomial(w - V(2.5f), -8.79105651e-09f, 2.32326441e-08f, 4.66170664e-07f, -3.46270476e-06f,
                            -4.96334785e-06f, 0.000218344439f, -0.00125274188f, -0.00417738678f, 0.246640286f,
                            1.50140936f);
  const V far = polynomial(sqrt(w) - V(3), -0.000165426412f, 8.61060402e-05f, 0.0013002224f, -0.00366013514f,
                           0.00576180035f, -0.0076253052f, 0.00943562223f, 1.00167418f, 2.83297699f);
  const V infinite = x / (V(1) - abs(x));  // infinite at 1; NaN outside, like w
  return select(abs(x) == V(1), infinite, x * select(w < V(5), near, far));
}

}  // namespace mantissa::pointwise
