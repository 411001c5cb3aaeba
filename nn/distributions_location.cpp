#include "nn/distributions_location.h"

#include <cmath>
#include <numbers>

#include "core/ops_special.h"

namespace mantissa::distributions {
using namespace detail;
namespace {
constexpr double pi = std::numbers::pi, euler = std::numbers::egamma;
}  // namespace

Laplace::Laplace(const Parameter& l, const Parameter& s) {
  const auto both = together("Laplace", {l, s});
  loc = both[0], scale = both[1];
  check_positive("Laplace", "scale", scale);
}
Tensor Laplace::rsample(const Dims& shape) const {
  const Tensor u = open_uniform(scale, shape);  // inverse distribution function, on either side
  return loc + scale * where(u < 0.5, log(clamp_max(2 * u, 1)), -log(clamp_max(2 - 2 * u, 1)));
}
Tensor Laplace::log_prob(const Tensor& value) const { return -abs(wide(value) - loc) / scale - log(2 * scale); }
Tensor Laplace::cdf(const Tensor& value) const {
  const Tensor x = wide(value) - loc;
  return 0.5 - 0.5 * sign(x) * expm1(-abs(x) / scale);
}
Tensor Laplace::icdf(const Tensor& p) const {
  const Tensor side = wide(p) - 0.5;
  return loc - scale * sign(side) * log1p(-2 * abs(side));
}
Tensor Laplace::entropy() const { return 1 + log(2 * scale); }
Tensor Laplace::variance() const { return 2 * square(scale); }

Cauchy::Cauchy(const Parameter& l, const Parameter& s) {
  const auto both = together("Cauchy", {l, s});
  loc = both[0], scale = both[1];
  check_positive("Cauchy", "scale", scale);
}
Tensor Cauchy::rsample(const Dims& shape) const { return loc + scale * tan(pi * (open_uniform(scale, shape) - 0.5)); }
Tensor Cauchy::log_prob(const Tensor& value) const {
  return -std::log(pi) - log(scale) - log1p(square((wide(value) - loc) / scale));
}
Tensor Cauchy::cdf(const Tensor& value) const { return atan((wide(value) - loc) / scale) / pi + 0.5; }
Tensor Cauchy::icdf(const Tensor& p) const { return loc + scale * tan(pi * (wide(p) - 0.5)); }
Tensor Cauchy::entropy() const { return std::log(4 * pi) + log(scale); }
Tensor Cauchy::mean() const { return nan_like(loc); }
Tensor Cauchy::variance() const { return full_like(scale.detach(), HUGE_VAL); }

HalfCauchy::HalfCauchy(const Parameter& s) : scale(wide(s.value())) { check_positive("HalfCauchy", "scale", scale); }
Tensor HalfCauchy::rsample(const Dims& shape) const { return icdf(open_uniform(scale, shape)); }
Tensor HalfCauchy::log_prob(const Tensor& given) const {
  const Tensor value = wide(given), inside = std::log(2 / pi) - log(scale) - log1p(square(value / scale));
  return where(value >= 0, inside, Tensor(-HUGE_VAL));
}
Tensor HalfCauchy::cdf(const Tensor& value) const { return atan(relu(wide(value)) / scale) * (2 / pi); }
Tensor HalfCauchy::icdf(const Tensor& p) const { return scale * tan(wide(p) * (pi / 2)); }
Tensor HalfCauchy::entropy() const { return std::log(2 * pi) + log(scale); }
Tensor HalfCauchy::mean() const { return full_like(scale.detach(), HUGE_VAL); }
Tensor HalfCauchy::mode() const { return zeros_like(scale); }
Tensor HalfCauchy::variance() const { return full_like(scale.detach(), HUGE_VAL); }

Gumbel::Gumbel(const Parameter& l, const Parameter& s) {
  const auto both = together("Gumbel", {l, s});
  loc = both[0], scale = both[1];
  check_positive("Gumbel", "scale", scale);
}
Tensor Gumbel::rsample(const Dims& shape) const { return icdf(open_uniform(scale, shape)); }
Tensor Gumbel::log_prob(const Tensor& value) const {
  const Tensor y = (wide(value) - loc) / scale;
  return -y - exp(-y) - log(scale);
}
Tensor Gumbel::cdf(const Tensor& value) const { return exp(-exp((loc - wide(value)) / scale)); }
Tensor Gumbel::icdf(const Tensor& p) const { return loc - scale * log(-log(wide(p))); }
Tensor Gumbel::entropy() const { return log(scale) + (1 + euler); }
Tensor Gumbel::mean() const { return loc + scale * euler; }
Tensor Gumbel::variance() const { return square(scale) * (pi * pi / 6); }

StudentT::StudentT(const Parameter& freedom, const Parameter& l, const Parameter& s) {
  const auto all = together("StudentT", {freedom, l, s});
  df = all[0], loc = all[1], scale = all[2];
  check_positive("StudentT", "df", df);
  check_positive("StudentT", "scale", scale);
}
Tensor StudentT::rsample(const Dims& shape) const {
  const Tensor chi2 = 2 * standard_gamma(expand(0.5 * df, extended(shape, df.sizes())));
  return loc + scale * noise(scale, shape) * rsqrt(chi2 / df);
}
Tensor StudentT::log_prob(const Tensor& value) const {
  const Tensor y = (wide(value) - loc) / scale;
  return -0.5 * (df + 1) * log1p(square(y) / df) - log(scale) - 0.5 * log(df * pi) - lgamma(0.5 * df) +
         lgamma(0.5 * (df + 1));
}
Tensor StudentT::entropy() const {
  const Tensor more = 0.5 * (df + 1), half = 0.5 * df;
  return log(scale) + more * (digamma(more) - digamma(half)) + 0.5 * log(df * pi) + lgamma(half) - lgamma(more);
}
Tensor StudentT::mean() const { return where(df > 1, loc, Tensor(NAN)); }
Tensor StudentT::variance() const {
  const Tensor has = df > 2, finite = square(scale) * df / (where(has, df, Tensor(3.0)) - 2);
  return where(has, finite, where(df > 1, Tensor(HUGE_VAL), Tensor(NAN)));
}

}  // namespace mantissa::distributions
