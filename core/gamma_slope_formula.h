// The formula of gamma_slope (core/gamma_slope.h), for the CPU and for GPUs.
#pragma once

#include <cmath>

#include "core/gamma_functions.h"

namespace mantissa::special {

// P(a, x) = sum over n of x^(a + n) e^-x / Gamma(a + n + 1), differentiated term by term and divided by its density.
// Terms grow until n = x - a and cancel down to the tail beyond x, so for a typical sample enough digits are left. For
// a > 2000, which would need hundreds of terms, the cube root of x is taken as normally distributed (Wilson and
// Hilferty, 1931), accurate to a relative 1e-6.
MANTISSA_HD inline double gamma_slope(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return NAN;
  if (x == 0) return 0;
  const double most = a + 6 * std::sqrt(a) + 16;  // one sample in 10^9 is beyond it, where digits run out
  if (x > most) x = most;
  if (a > 2000) {
    const double u = std::cbrt(x / a), e = 3 * std::sqrt(a) * (u - 1 + 1 / (9 * a));
    return u * u * u + 3 * a * u * u * (1 / (9 * a * a) - e / (6 * a * std::sqrt(a)));
  }
  const double log_x = std::log(x);
  double term = 1 / a, psi = digamma(a + 1), sum = term * (log_x - psi);
  for (int n = 1; n < 4000; ++n) {
    term *= x / (a + n);
    psi += 1 / (a + n);
    const double next = term * (log_x - psi);
    sum += next;
    if (a + n > x && std::abs(next) < 1e-17 * std::abs(sum)) break;
  }
  return -x * sum;
}

struct GammaSlope {
  template <class T> MANTISSA_HD T f(T a, T x) const {
    return static_cast<T>(gamma_slope(static_cast<double>(a), static_cast<double>(x)));
  }
};

}  // namespace mantissa::special
