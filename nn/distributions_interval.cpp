#include "nn/distributions_interval.h"

#include <cmath>
#include <numbers>

#include "core/ops_special.h"
#include "core/random.h"

namespace mantissa::distributions {
using namespace detail;

Uniform::Uniform(const Parameter& l, const Parameter& h) {
  const auto both = together("Uniform", {l, h});
  low = both[0], high = both[1];
  check_range("Uniform", "low must be below high", low < high);
}
Tensor Uniform::rsample(const Dims& shape) const {
  return low + rand(extended(shape, low.sizes()), like(low)) * (high - low);
}
Tensor Uniform::log_prob(const Tensor& value) const {
  const Tensor inside = logical_and(wide(value) >= low, wide(value) < high);
  return where(inside, -log(high - low), Tensor(-HUGE_VAL));
}
Tensor Uniform::cdf(const Tensor& value) const { return clamp((wide(value) - low) / (high - low), 0, 1); }
Tensor Uniform::icdf(const Tensor& p) const { return low + wide(p) * (high - low); }
Tensor Uniform::entropy() const { return log(high - low); }
Tensor Uniform::mean() const { return (low + high) / 2; }
Tensor Uniform::variance() const { return square(high - low) / 12; }

// --- Kumaraswamy: 1 - cdf is (1 - value^a)^b ---
Kumaraswamy::Kumaraswamy(const Parameter& a, const Parameter& b) {
  const auto both = together("Kumaraswamy", {a, b});
  concentration1 = both[0], concentration0 = both[1];
  check_positive("Kumaraswamy", "concentration1", concentration1);
  check_positive("Kumaraswamy", "concentration0", concentration0);
}
namespace {
Tensor where_log_rest_is(const Kumaraswamy& k, const Tensor& log_rest) {
  return pow(-expm1(log_rest / k.concentration0), reciprocal(k.concentration1));
}
Tensor moment(const Kumaraswamy& k, int n) {
  return k.concentration0 * exp(log_beta(1 + n / k.concentration1, k.concentration0));
}
}  // namespace
Tensor Kumaraswamy::rsample(const Dims& shape) const {
  return where_log_rest_is(*this, log(open_uniform(concentration1, shape)));
}
Tensor Kumaraswamy::log_prob(const Tensor& given) const {
  const Tensor value = wide(given), &a = concentration1, &b = concentration0;
  return log(a) + log(b) + xlogy(a - 1, value) + (b - 1) * log1p(-pow(value, a));
}
Tensor Kumaraswamy::cdf(const Tensor& value) const {
  return -expm1(concentration0 * log1p(-pow(clamp(wide(value), 0, 1), concentration1)));
}
Tensor Kumaraswamy::icdf(const Tensor& p) const { return where_log_rest_is(*this, log1p(-wide(p))); }
Tensor Kumaraswamy::entropy() const {
  const Tensor harmonic = digamma(concentration0 + 1) + std::numbers::egamma;
  return 1 - reciprocal(concentration0) + (1 - reciprocal(concentration1)) * harmonic - log(concentration1) -
         log(concentration0);
}
Tensor Kumaraswamy::mean() const { return moment(*this, 1); }
Tensor Kumaraswamy::mode() const {
  const Tensor &a = concentration1, &b = concentration0;
  const Tensor inside = pow((a - 1) / (a * b - 1), reciprocal(a));
  return where(logical_or(a < 1, b < 1), Tensor(NAN), inside);
}
Tensor Kumaraswamy::variance() const { return moment(*this, 2) - square(moment(*this, 1)); }

// --- ContinuousBernoulli: with logits z the density is exp(z x) z / (exp(z) - 1) ---
namespace {
// f(z), by a series where |z| < edge. Each branch sees a safe constant where the other one is used, so gradients stay
// finite, too.
template <class F, class S> Tensor near_zero(const Tensor& z, double edge, const F& f, const S& series) {
  const Tensor near = abs(z) < edge;
  return where(near, series(where(near, z, Tensor(0.0))), f(where(near, Tensor(1.0), z)));
}
// log(z / (exp(z) - 1)) = -z / 2 - log(sinh(h) / h) with h = z / 2
Tensor log_normalizer(const Tensor& z) {
  const Tensor curve = near_zero(
      0.5 * z, 0.1,
      [](const Tensor& h) {
        const Tensor a = abs(h);
        return a + log(-expm1(-2 * a) / (2 * a));
      },
      [](const Tensor& h) {
        const Tensor s = square(h);
        return s * (1.0 / 6 + s * (-1.0 / 180 + s * (1.0 / 2835 - s / 37800)));
      });
  return -0.5 * z - curve;
}
}  // namespace
ContinuousBernoulli::ContinuousBernoulli(const ProbsOrLogits& o) {
  const Odds odds = odds_of("ContinuousBernoulli", o);
  probs = odds.probs, logits = odds.logits;
}
Tensor ContinuousBernoulli::rsample(const Dims& shape) const { return icdf(open_uniform(logits, shape)); }
Tensor ContinuousBernoulli::log_prob(const Tensor& value) const {
  return wide(value) * logits + log_normalizer(logits);
}
Tensor ContinuousBernoulli::cdf(const Tensor& given) const {
  const Tensor value = clamp(wide(given), 0, 1), flipped = logits > 0;
  const Tensor x = where(flipped, 1 - value, value), z = where(flipped, -logits, logits);  // keeps exp(z x) finite
  const Tensor below = near_zero(
      z, 1e-3, [&](const Tensor& a) { return expm1(a * x) / expm1(a); },
      [&](const Tensor& a) { return x - a * x * (1 - x) * (0.5 - a * (1 - 2 * x) / 12); });
  return where(flipped, 1 - below, below);
}
Tensor ContinuousBernoulli::icdf(const Tensor& given) const {
  const Tensor p = wide(given), flipped = logits > 0;
  const Tensor u = where(flipped, 1 - p, p), z = where(flipped, -logits, logits);
  const Tensor x = near_zero(
      z, 1e-3, [&](const Tensor& a) { return log1p(u * expm1(a)) / a; },
      [&](const Tensor& a) { return u + a * u * (1 - u) * (0.5 + a * (1 - 2 * u) / 6); });
  return where(flipped, 1 - x, x);
}
Tensor ContinuousBernoulli::entropy() const { return -mean() * logits - log_normalizer(logits); }
Tensor ContinuousBernoulli::mean() const {
  return near_zero(
      logits, 0.3, [](const Tensor& z) { return -reciprocal(expm1(-z)) - reciprocal(z); },
      [](const Tensor& z) {
        const Tensor s = square(z);
        return 0.5 + z * (1.0 / 12 + s * (-1.0 / 720 + s * (1.0 / 30240 - s / 1209600)));
      });
}
Tensor ContinuousBernoulli::variance() const {
  return near_zero(
      logits, 0.3,
      [](const Tensor& z) { return reciprocal(square(z)) - sigmoid(z) * sigmoid(-z) / square(tanh(0.5 * z)); },
      [](const Tensor& z) {
        const Tensor s = square(z);
        return 1.0 / 12 + s * (-1.0 / 240 + s * (1.0 / 6048 - s / 172800));
      });
}

// --- relaxed Bernoulli ---
LogitRelaxedBernoulli::LogitRelaxedBernoulli(double t, const ProbsOrLogits& o) : temperature(t) {
  check(t > 0, "RelaxedBernoulli: the temperature must be positive, got ", t);
  const Odds odds = odds_of("RelaxedBernoulli", o);
  probs = odds.probs, logits = odds.logits;
}
Tensor LogitRelaxedBernoulli::rsample(const Dims& shape) const {
  return (logits + logit(open_uniform(logits, shape))) / temperature;
}
Tensor LogitRelaxedBernoulli::log_prob(const Tensor& value) const {
  const Tensor difference = logits - temperature * wide(value);
  return std::log(temperature) + difference - 2 * softplus(difference);
}
Tensor RelaxedBernoulli::rsample(const Dims& shape) const { return sigmoid(base.rsample(shape)); }
Tensor RelaxedBernoulli::log_prob(const Tensor& given) const {
  const Tensor value = wide(given), x = logit(value, smallest_step(value));
  return base.log_prob(x) + softplus(x) + softplus(-x);
}

}  // namespace mantissa::distributions
