#include "nn/distributions_normal.h"

#include <cmath>
#include <numbers>

namespace mantissa::distributions {
using namespace detail;
namespace {
constexpr double ln2 = std::numbers::ln2, root2 = std::numbers::sqrt2, pi = std::numbers::pi;
const double log_root_2pi = 0.5 * std::log(2 * pi);
}  // namespace

Normal::Normal(const Parameter& l, const Parameter& s) {
  const auto both = together("Normal", {l, s});
  loc = both[0], scale = both[1];
  check_positive("Normal", "scale", scale);
}
Tensor Normal::rsample(const Dims& shape) const { return loc + noise(scale, shape) * scale; }
Tensor Normal::log_prob(const Tensor& value) const {
  return -0.5 * square((wide(value) - loc) / scale) - log(scale) - log_root_2pi;
}
Tensor Normal::cdf(const Tensor& value) const { return 0.5 * (1 + erf((wide(value) - loc) / (scale * root2))); }
Tensor Normal::icdf(const Tensor& p) const { return loc + scale * erfinv(2 * wide(p) - 1) * root2; }
Tensor Normal::entropy() const { return 0.5 + log_root_2pi + log(scale); }
Tensor Normal::variance() const { return square(scale); }

Tensor LogNormal::rsample(const Dims& shape) const { return exp(base.rsample(shape)); }
Tensor LogNormal::log_prob(const Tensor& value) const {
  const Tensor logs = log(wide(value));
  return base.log_prob(logs) - logs;
}
Tensor LogNormal::cdf(const Tensor& value) const { return base.cdf(log(wide(value))); }
Tensor LogNormal::icdf(const Tensor& p) const { return exp(base.icdf(p)); }
Tensor LogNormal::entropy() const { return base.entropy() + base.loc; }
Tensor LogNormal::mean() const { return exp(base.loc + 0.5 * base.variance()); }
Tensor LogNormal::mode() const { return exp(base.loc - base.variance()); }
Tensor LogNormal::variance() const { return expm1(base.variance()) * exp(2 * base.loc + base.variance()); }

HalfNormal::HalfNormal(const Parameter& s) : scale(wide(s.value())) { check_positive("HalfNormal", "scale", scale); }
Tensor HalfNormal::rsample(const Dims& shape) const { return abs(noise(scale, shape)) * scale; }
Tensor HalfNormal::log_prob(const Tensor& given) const {
  const Tensor value = wide(given), inside = -0.5 * square(value / scale) - log(scale) + (ln2 - log_root_2pi);
  return where(value >= 0, inside, Tensor(-HUGE_VAL));
}
Tensor HalfNormal::cdf(const Tensor& value) const { return erf(relu(wide(value)) / (scale * root2)); }
Tensor HalfNormal::icdf(const Tensor& p) const { return scale * erfinv(wide(p)) * root2; }
Tensor HalfNormal::entropy() const { return log(scale) + (0.5 + log_root_2pi - ln2); }
Tensor HalfNormal::mean() const { return scale * std::sqrt(2 / pi); }
Tensor HalfNormal::mode() const { return zeros_like(scale); }
Tensor HalfNormal::variance() const { return square(scale) * (1 - 2 / pi); }

namespace {
// log of tanh's derivative at x; 1 - tanh(x)^2 would lose all digits for large x
Tensor log_tanh_slope(const Tensor& x) { return 2 * (ln2 - x - softplus(-2 * x)); }
}  // namespace
TanhNormal::Scored TanhNormal::rsample_and_log_prob(const Dims& shape) const {
  const Tensor x = base.rsample(shape);
  return {tanh(x), base.log_prob(x) - log_tanh_slope(x)};
}
Tensor TanhNormal::rsample(const Dims& shape) const { return tanh(base.rsample(shape)); }
Tensor TanhNormal::log_prob(const Tensor& given) const {
  const Tensor value = wide(given);
  const double edge = 1 - smallest_step(value);
  const Tensor x = atanh(clamp(value, -edge, edge));
  return base.log_prob(x) - log_tanh_slope(x);
}

}  // namespace mantissa::distributions
