#include "nn/distributions_positive.h"

#include <cmath>
#include <numbers>

#include "core/ops_special.h"

namespace mantissa::distributions {
using namespace detail;
namespace {
constexpr double euler = std::numbers::egamma;
}  // namespace

Exponential::Exponential(const Parameter& r) : rate(wide(r.value())) { check_positive("Exponential", "rate", rate); }
Tensor Exponential::rsample(const Dims& shape) const { return -log(open_uniform(rate, shape)) / rate; }
Tensor Exponential::log_prob(const Tensor& value) const { return log(rate) - rate * wide(value); }
Tensor Exponential::cdf(const Tensor& value) const { return -expm1(-rate * relu(wide(value))); }
Tensor Exponential::icdf(const Tensor& p) const { return -log1p(-wide(p)) / rate; }
Tensor Exponential::entropy() const { return 1 - log(rate); }
Tensor Exponential::mean() const { return reciprocal(rate); }
Tensor Exponential::mode() const { return zeros_like(rate); }
Tensor Exponential::variance() const { return reciprocal(square(rate)); }

Weibull::Weibull(const Parameter& s, const Parameter& c) {
  const auto both = together("Weibull", {s, c});
  scale = both[0], concentration = both[1];
  check_positive("Weibull", "scale", scale);
  check_positive("Weibull", "concentration", concentration);
}
Tensor Weibull::rsample(const Dims& shape) const {
  return scale * pow(-log(open_uniform(scale, shape)), reciprocal(concentration));
}
Tensor Weibull::log_prob(const Tensor& value) const {
  const Tensor x = wide(value) / scale;
  return log(concentration / scale) + xlogy(concentration - 1, x) - pow(x, concentration);
}
Tensor Weibull::cdf(const Tensor& value) const { return -expm1(-pow(relu(wide(value)) / scale, concentration)); }
Tensor Weibull::icdf(const Tensor& p) const { return scale * pow(-log1p(-wide(p)), reciprocal(concentration)); }
Tensor Weibull::entropy() const { return euler * (1 - reciprocal(concentration)) + log(scale / concentration) + 1; }
namespace {
Tensor log_moment(const Weibull& w, int n) { return lgamma(1 + n / w.concentration); }  // of value / scale
}  // namespace
Tensor Weibull::mean() const { return scale * exp(log_moment(*this, 1)); }
Tensor Weibull::mode() const { return scale * pow(relu(1 - reciprocal(concentration)), reciprocal(concentration)); }
Tensor Weibull::variance() const { return square(scale) * (exp(log_moment(*this, 2)) - exp(2 * log_moment(*this, 1))); }

Pareto::Pareto(const Parameter& s, const Parameter& a) {
  const auto both = together("Pareto", {s, a});
  scale = both[0], alpha = both[1];
  check_positive("Pareto", "scale", scale);
  check_positive("Pareto", "alpha", alpha);
}
Tensor Pareto::rsample(const Dims& shape) const { return scale * exp(-log(open_uniform(scale, shape)) / alpha); }
Tensor Pareto::log_prob(const Tensor& given) const {
  const Tensor value = wide(given), inside = log(alpha) + alpha * log(scale) - (alpha + 1) * log(value);
  return where(value >= scale, inside, Tensor(-HUGE_VAL));
}
Tensor Pareto::cdf(const Tensor& value) const { return -expm1(alpha * log(scale / maximum(wide(value), scale))); }
Tensor Pareto::icdf(const Tensor& p) const { return scale * exp(-log1p(-wide(p)) / alpha); }
Tensor Pareto::entropy() const { return log(scale / alpha) + 1 + reciprocal(alpha); }
Tensor Pareto::mean() const {
  const Tensor has = alpha > 1, a = where(has, alpha, Tensor(2.0));
  return where(has, scale * a / (a - 1), Tensor(HUGE_VAL));
}
Tensor Pareto::variance() const {
  const Tensor has = alpha > 2, a = where(has, alpha, Tensor(3.0));
  return where(has, square(scale / (a - 1)) * a / (a - 2), Tensor(HUGE_VAL));
}

GeneralizedPareto::GeneralizedPareto(const Parameter& l, const Parameter& s, const Parameter& c) {
  const auto all = together("GeneralizedPareto", {l, s, c});
  loc = all[0], scale = all[1], concentration = all[2];
  check_positive("GeneralizedPareto", "scale", scale);
}
namespace {
// Cumulative hazard of the excess z >= 0: -log(1 - cdf) = log(1 + c z) / c, z for c = 0; infinite beyond the support.
Tensor hazard(const GeneralizedPareto& g, const Tensor& z) {
  const Tensor zero = abs(g.concentration) < 1e-8, c = where(zero, Tensor(1.0), g.concentration);
  return where(zero, z, log1p(clamp_min(c * z, -1)) / c);
}
// The excess with cumulative hazard h.
Tensor excess(const GeneralizedPareto& g, const Tensor& h) {
  const Tensor zero = abs(g.concentration) < 1e-8, c = where(zero, Tensor(1.0), g.concentration);
  return g.loc + g.scale * where(zero, h, expm1(c * h) / c);
}
}  // namespace
Tensor GeneralizedPareto::rsample(const Dims& shape) const { return excess(*this, -log(open_uniform(scale, shape))); }
Tensor GeneralizedPareto::log_prob(const Tensor& value) const {
  const Tensor z = (wide(value) - loc) / scale;
  const Tensor inside = -(1 + concentration) * hazard(*this, z) - log(scale);
  return where(logical_and(z >= 0, concentration * z >= -1), inside, Tensor(-HUGE_VAL));
}
Tensor GeneralizedPareto::cdf(const Tensor& value) const {
  return -expm1(-hazard(*this, relu((wide(value) - loc) / scale)));
}
Tensor GeneralizedPareto::icdf(const Tensor& p) const { return excess(*this, -log1p(-wide(p))); }
Tensor GeneralizedPareto::entropy() const { return log(scale) + concentration + 1; }
Tensor GeneralizedPareto::mean() const {
  const Tensor has = concentration < 1, c = where(has, concentration, Tensor(0.0));
  return where(has, loc + scale / (1 - c), Tensor(HUGE_VAL));
}
Tensor GeneralizedPareto::variance() const {
  const Tensor has = concentration < 0.5, c = where(has, concentration, Tensor(0.0));
  return where(has, square(scale / (1 - c)) / (1 - 2 * c), Tensor(HUGE_VAL));
}

}  // namespace mantissa::distributions
