// The logarithm of the gamma function and its derivatives, for one number at a time in double: called by the kernels of
// lgamma, digamma and polygamma (core/ops_special.h). Formulas: Abramowitz and Stegun, 6.3 (digamma) and 6.4
// (polygamma), and the Euler-Maclaurin sum for the Hurwitz zeta function. Poles and special values are PyTorch's,
// except for polygamma at the poles below 0, which is infinite, and at infinity, which is 0.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/formula_functions.h"
#include "core/host_device.h"

namespace mantissa::special {

// log |gamma(x)|. Unlike the C library's lgamma it writes no global variable that threads would share.
MANTISSA_HD inline double log_gamma(double x) {
#if defined(__CUDA_ARCH__)
  return ::lgamma(x);
#else
  int sign = 0;
  return ::lgamma_r(x, &sign);
#endif
}

// The same to within 1e-14 of the largest term, which is enough for results in f32, as a formula for vectors of double:
// Stirling's series for x >= 8, a product below, and the reflection to 1 - x below 0.5.
template <class T> inline T log_gamma_formula(T x) {
  using pointwise::abs, pointwise::log, pointwise::nearbyint, pointwise::select, pointwise::sin;
  constexpr double pi = 3.141592653589793, infinity = std::numeric_limits<double>::infinity();
  const auto reflected = x < T(0.5);
  const T a = select(reflected, T(1) - x, x);
  T product = a;
  for (int k = 1; k < 8; ++k) product = product * (a + T(k));
  const auto small = a < T(8);
  const T z = select(small, a + T(8), a), r = T(1) / z, r2 = r * r;
  // B(2k) / (2k (2k - 1)), to z^-13
  const double b[] = {1.0 / 156, -691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12};
  T series(0);
  for (double coefficient : b) series = series * r2 + T(coefficient);
  series = series * r;
  const T stirling = (z - T(0.5)) * log(z) - z + T(0.9189385332046727) + series;
  const T wave = abs(sin(T(pi) * (x - nearbyint(x))));
  const T factor = select(small, product, T(1));
  const T rest = log(select(reflected, T(pi) * factor / wave, factor));
  const T y = select(reflected, rest - stirling, stirling - rest);
  return select(abs(x) == T(infinity), T(infinity), y);
}

MANTISSA_HD inline double digamma(double x) {
  constexpr double pi = 3.141592653589793;
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double sum = 0;
  if (x < 0) {
    const double whole = std::trunc(x);
    if (x == whole) return std::numeric_limits<double>::quiet_NaN();
    sum = -pi / std::tan(pi * (x - whole));
    x = 1 - x;
  }
  for (; x < 10; x += 1) sum -= 1 / x;
  const double z = 1 / (x * x);
  const double b[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};  // B(2k) / 2k
  double series = 0;
  for (int k = 6; k >= 0; --k) series = z * (b[k] + series);
  return sum + std::log(x) - 0.5 / x - series;
}

// The sum over k >= 0 of (x + k)^-p, for x > 0 and integers p >= 2.
MANTISSA_HD inline double hurwitz_zeta(double p, double x) {
  double sum = 0;
  for (; x < p + 12; x += 1) sum += std::pow(x, -p);  // until the series below converges fast
  const double power = std::pow(x, -p);
  sum += power * (x / (p - 1) + 0.5);
  // Bernoulli numbers divided by factorials, B(2k) / (2k)!
  const double b[] = {1.0 / 12,       -1.0 / 720,               1.0 / 30240,        -1.0 / 1209600,
                      1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0};
  double rising = p, scaled = power / x;
  for (int k = 0; k < 7; ++k) {
    sum += b[k] * rising * scaled;
    rising *= (p + 2 * k + 1) * (p + 2 * k + 2);
    scaled /= x * x;
  }
  return sum;
}

// The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x). For x < 0 the sum runs over both sides of 0, each with
// arguments > 0.
MANTISSA_HD inline double polygamma(std::int64_t n, double x) {
  if (n == 0) return digamma(x);
  if (x != x) return x;
  const double p = static_cast<double>(n) + 1, whole = std::floor(x);
  const double scale = (n % 2 ? 1 : -1) * std::exp(log_gamma(p));
  if (x > 0) return x > 1e300 ? 0 * scale : scale * hurwitz_zeta(p, x);
  if (x == whole) return (n % 2 ? 1 : -1) * std::numeric_limits<double>::infinity();
  const double above = hurwitz_zeta(p, x - whole), below = hurwitz_zeta(p, 1 - (x - whole)) - hurwitz_zeta(p, 1 - x);
  return scale * (n % 2 ? above + below : above - below);
}

// Order -1 is lgamma, 0 digamma, n polygamma(n): each the derivative of the one before.
struct GammaFunction {
  std::int64_t order = -1;
  template <class T> MANTISSA_HD T f(T x) const {
    const double v = static_cast<double>(x);
    return static_cast<T>(order < 0 ? log_gamma(v) : polygamma(order, v));
  }
};

}  // namespace mantissa::special
