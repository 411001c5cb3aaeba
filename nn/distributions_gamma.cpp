#include "nn/distributions_gamma.h"

#include <cmath>

#include "core/ops_special.h"
#include "core/special.h"

namespace mantissa::distributions {
using namespace detail;

Gamma::Gamma(const Parameter& c, const Parameter& r) {
  const auto both = together("Gamma", {c, r});
  concentration = both[0], rate = both[1];
  check_positive("Gamma", "concentration", concentration);
  check_positive("Gamma", "rate", rate);
}
Tensor Gamma::rsample(const Dims& shape) const {
  return standard_gamma(expand(concentration, extended(shape, concentration.sizes()))) / rate;
}
Tensor Gamma::log_prob(const Tensor& given) const {
  const Tensor value = wide(given);
  return xlogy(concentration, rate) + xlogy(concentration - 1, value) - rate * value - lgamma(concentration);
}
Tensor Gamma::cdf(const Tensor& value) const { return igamma(concentration, rate * relu(wide(value))); }
Tensor Gamma::entropy() const {
  return concentration - log(rate) + lgamma(concentration) + (1 - concentration) * digamma(concentration);
}
Tensor Gamma::mean() const { return concentration / rate; }
Tensor Gamma::mode() const { return relu(concentration - 1) / rate; }
Tensor Gamma::variance() const { return concentration / square(rate); }

Chi2::Chi2(const Parameter& df) : Gamma(0.5 * df.value(), 0.5) {}

Tensor InverseGamma::rsample(const Dims& shape) const { return reciprocal(base.rsample(shape)); }
Tensor InverseGamma::log_prob(const Tensor& given) const {
  const Tensor value = wide(given);
  return base.log_prob(reciprocal(value)) - 2 * log(value);
}
Tensor InverseGamma::cdf(const Tensor& value) const {
  return igammac(base.concentration, base.rate / relu(wide(value)));
}
Tensor InverseGamma::entropy() const {
  const Tensor& c = base.concentration;
  return c + log(base.rate) + lgamma(c) - (1 + c) * digamma(c);
}
Tensor InverseGamma::mean() const {
  const Tensor has = base.concentration > 1, c = where(has, base.concentration, Tensor(2.0));
  return where(has, base.rate / (c - 1), Tensor(HUGE_VAL));
}
Tensor InverseGamma::mode() const { return base.rate / (base.concentration + 1); }
Tensor InverseGamma::variance() const {
  const Tensor has = base.concentration > 2, c = where(has, base.concentration, Tensor(3.0));
  return where(has, square(base.rate / (c - 1)) / (c - 2), Tensor(HUGE_VAL));
}

FisherSnedecor::FisherSnedecor(const Parameter& a, const Parameter& b) {
  const auto both = together("FisherSnedecor", {a, b});
  df1 = both[0], df2 = both[1];
  check_positive("FisherSnedecor", "df1", df1);
  check_positive("FisherSnedecor", "df2", df2);
}
Tensor FisherSnedecor::rsample(const Dims& shape) const {
  const Dims sizes = extended(shape, df1.sizes());
  return standard_gamma(expand(0.5 * df1, sizes)) / standard_gamma(expand(0.5 * df2, sizes)) * (df2 / df1);
}
Tensor FisherSnedecor::log_prob(const Tensor& given) const {
  const Tensor value = wide(given), a = 0.5 * df1, b = 0.5 * df2, ratio = df1 / df2;
  return a * log(ratio) + xlogy(a - 1, value) - (a + b) * log1p(ratio * value) - log_beta(a, b);
}
Tensor FisherSnedecor::mean() const {
  const Tensor has = df2 > 2, d = where(has, df2, Tensor(3.0));
  return where(has, d / (d - 2), Tensor(NAN));
}
Tensor FisherSnedecor::mode() const { return where(df1 > 2, (df1 - 2) / df1 * df2 / (df2 + 2), Tensor(NAN)); }
Tensor FisherSnedecor::variance() const {
  const Tensor has = df2 > 4, d = where(has, df2, Tensor(5.0));
  return where(has, 2 * square(d / (d - 2)) * (df1 + d - 2) / (df1 * (d - 4)), Tensor(NAN));
}

Beta::Beta(const Parameter& a, const Parameter& b) {
  const auto both = together("Beta", {a, b});
  concentration1 = both[0], concentration0 = both[1];
  check_positive("Beta", "concentration1", concentration1);
  check_positive("Beta", "concentration0", concentration0);
}
Tensor Beta::rsample(const Dims& shape) const {
  const Dims sizes = extended(shape, concentration1.sizes());
  // In f64, where small concentrations do not make both of them 0.
  const Tensor x = standard_gamma(cast(expand(concentration1, sizes), f64)),
               y = standard_gamma(cast(expand(concentration0, sizes), f64));
  return in_open_unit(x / (x + y), concentration1.dtype());
}
Tensor Beta::log_prob(const Tensor& given) const {
  const Tensor value = wide(given);
  return xlogy(concentration1 - 1, value) + xlogy(concentration0 - 1, 1 - value) -
         log_beta(concentration1, concentration0);
}
Tensor Beta::entropy() const {
  const Tensor &a = concentration1, &b = concentration0;
  return log_beta(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b);
}
Tensor Beta::mean() const { return concentration1 / (concentration1 + concentration0); }
Tensor Beta::mode() const {
  const Tensor a = relu(concentration1 - 1);
  return a / (a + relu(concentration0 - 1));
}
Tensor Beta::variance() const {
  const Tensor total = concentration1 + concentration0;
  return concentration1 * concentration0 / (square(total) * (total + 1));
}

Dirichlet::Dirichlet(const Tensor& c) : concentration(wide(c)) {
  check(c.dim() >= 1 && c.is_floating(), "Dirichlet: concentration must be floating [..., K], got ", c);
  check_positive("Dirichlet", "concentration", concentration);
}
Tensor Dirichlet::rsample(const Dims& shape) const {
  const Tensor x = standard_gamma(cast(expand(concentration, extended(shape, concentration.sizes())), f64));
  return in_open_unit(x / x.sum(-1, true), concentration.dtype());
}
Tensor Dirichlet::log_prob(const Tensor& value) const {
  return xlogy(concentration - 1, wide(value)).sum(-1) + lgamma(concentration.sum(-1)) - lgamma(concentration).sum(-1);
}
Tensor Dirichlet::entropy() const {
  const Tensor total = concentration.sum(-1);
  const double k = static_cast<double>(concentration.size(-1));
  return lgamma(concentration).sum(-1) - lgamma(total) - (k - total) * digamma(total) -
         ((concentration - 1) * digamma(concentration)).sum(-1);
}
Tensor Dirichlet::mean() const { return concentration / concentration.sum(-1, true); }
Tensor Dirichlet::mode() const {
  const Tensor above = relu(concentration - 1);
  return above / above.sum(-1, true);
}
Tensor Dirichlet::variance() const {
  const Tensor total = concentration.sum(-1, true);
  return concentration * (total - concentration) / (square(total) * (total + 1));
}

}  // namespace mantissa::distributions
