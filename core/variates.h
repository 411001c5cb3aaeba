// Random numbers whose distribution differs from element to element: gamma, Poisson and binomial variates. An element
// has a stream of its own, of which it takes as many numbers as it needs. So a GPU needs one launch and no wait, and no
// result depends on the number of threads. On both devices the same, up to the last bits of log, sqrt and lgamma.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/gamma_functions.h"
#include "core/random.h"

namespace mantissa {

enum class Variate : std::uint8_t {
  gamma,    // shape a, rate 1
  poisson,  // mean a
  binomial  // successes in a trials, each with probability b
};

// One number (f64) for each element of a, and of b, which has a's sizes (binomial only), from the default generator.
// NaN where a distribution does not exist.
Tensor draw_variates(Variate which, const Tensor& a, const Tensor& b = {});

namespace variates {

// The random numbers of one element, from the counters {offset, 0}, {offset, 1}, ...
class Draws {
 public:
  // first: the words of {offset, 0}
  MANTISSA_HD Draws(std::uint64_t seed, std::uint64_t offset, const Philox::Words& first)
      : philox_{seed}, offset_(offset), words_(first) {}

  // Between 0 and 1, neither of which it is.
  MANTISSA_HD double uniform() {
    const Pair w = next();
    return (static_cast<double>((std::uint64_t{w.high} << 32 | w.low) >> 12) + 0.5) * 0x1p-52;
  }
  MANTISSA_HD double normal() {  // Box-Muller transform, as in core/distribution.h
    const Pair w = next();
    const double u = (static_cast<double>(w.high) + 0.5) * 0x1p-32;
    return std::sqrt(-2 * std::log(u)) * std::cos(static_cast<double>(w.low) * (6.283185307179586 * 0x1p-32));
  }

 private:
  struct Pair { std::uint32_t high, low; };
  MANTISSA_HD Pair next() {  // the words of each counter in two halves
    in_second_half_ = !in_second_half_;
    if (!in_second_half_) return {words_.v[2], words_.v[3]};
    if (counter_ > 0) words_ = philox_(offset_, counter_);
    ++counter_;
    return {words_.v[0], words_.v[1]};
  }

  Philox philox_;
  std::uint64_t offset_, counter_ = 0;  // counter_: whose words come next
  Philox::Words words_;
  bool in_second_half_ = false;
};

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; G(a) = G(a + 1) U^(1 / a) below 1.
MANTISSA_HD inline double gamma(double shape, Draws& draws) {
  const double a = shape < 1 ? shape + 1 : shape, d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draws.normal(), root = 1 + c * x, v = root * root * root, u = draws.uniform();
    if (!(v > 0)) continue;
    const bool surely = u < 1 - 0.0331 * (x * x) * (x * x);  // without the logarithms
    if (!surely && !(std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v)))) continue;
    return shape < 1 ? d * v * std::exp(std::log(draws.uniform()) / shape) : d * v;
  }
}

// Counts of which few are expected, by inversion: the first k at which the probabilities of 0 to k exceed a uniform
// number. ratio(k): that of k to that of k - 1. Higher counts than `most` have a probability below 1e-60.
inline constexpr double few = 10;
template <class Ratio>
MANTISSA_HD inline double by_inversion(double probability_of_0, const Ratio& ratio, double most, Draws& draws) {
  double k = 0, p = probability_of_0;
  for (double u = draws.uniform(); u > p && k < most;) {
    u -= p;
    p *= ratio(++k);
  }
  return k;
}

// Transformed rejection with squeeze (Hoermann, "The transformed rejection method for generating Poisson random
// variables", 1993; "The generation of binomial random variates", 1993). A candidate is accepted at once inside the
// squeeze, otherwise if v times the hat's height is at most the density. So most need no logarithm.
struct Hat { double a, b, centre, squeeze, scale; };
template <class LogDensity>
MANTISSA_HD inline double by_rejection(const Hat& h, double most, const LogDensity& log_density, Draws& draws) {
  for (;;) {
    const double u = draws.uniform() - 0.5, v = draws.uniform(), edge = 0.5 - std::abs(u);
    const double k = std::floor((2 * h.a / edge + h.b) * u + h.centre);
    if (!(k >= 0 && k <= most)) continue;
    if (edge >= 0.07 && v <= h.squeeze) return k;
    if (std::log(v * h.scale / (h.a / (edge * edge) + h.b)) <= log_density(k)) return k;
  }
}

MANTISSA_HD inline double poisson(double rate, Draws& draws) {
  if (rate < few) return by_inversion(std::exp(-rate), [=](double k) { return rate / k; }, 10 * few, draws);
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const Hat hat{a, b, rate + 0.43, 0.9277 - 3.6224 / (b - 2), 1.1239 + 1.1328 / (b - 3.4)};
  const auto log_density = [=](double k) { return k * std::log(rate) - rate - special::log_gamma(k + 1); };
  return by_rejection(hat, std::numeric_limits<double>::max(), log_density, draws);
}

MANTISSA_HD inline double binomial(double n, double probability, Draws& draws) {
  const double p = probability > 0.5 ? 1 - probability : probability;
  double count = 0;
  if (n * p < few) {
    const double odds = p / (1 - p), most = n < 10 * few ? n : 10 * few;
    count = by_inversion(std::exp(n * std::log1p(-p)), [=](double k) { return (n - k + 1) / k * odds; }, most, draws);
  } else {
    const double deviation = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation,
                 a = -0.0873 + 0.0248 * b + 0.01 * p;
    const Hat hat{a, b, n * p + 0.5, 0.92 - 4.2 / b, (2.83 + 5.1 / b) * deviation};
    const auto log_density = [=](double k) {  // divided by that of the mode
      const double mode = std::floor((n + 1) * p);
      return special::log_gamma(mode + 1) + special::log_gamma(n - mode + 1) - special::log_gamma(k + 1) -
             special::log_gamma(n - k + 1) + (k - mode) * std::log(p / (1 - p));
    };
    count = by_rejection(hat, n, log_density, draws);
  }
  return probability > 0.5 ? n - count : count;
}

MANTISSA_HD inline double draw(Variate which, double a, double b, Draws draws) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool exists = which == Variate::gamma ? a > 0 : a >= 0 && (which == Variate::poisson || (b >= 0 && b <= 1));
  if (!exists || a == infinity) return std::numeric_limits<double>::quiet_NaN();
  return which == Variate::gamma     ? gamma(a, draws)
         : which == Variate::poisson ? poisson(a, draws)
                                     : binomial(a, b, draws);
}

}  // namespace variates
}  // namespace mantissa
