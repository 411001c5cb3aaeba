#include "nn/distributions_counts.h"

#include <algorithm>

#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "nn/distributions_classes.h"
#include "nn/distributions_gamma.h"

namespace mantissa::distributions {
using namespace detail;

Poisson::Poisson(const Parameter& r) : rate(wide(r.value())) {
  check_range("Poisson", "rate must not be negative", rate >= 0);
}
Tensor Poisson::sample(const Dims& shape) const {
  const NoGrad no_grad;
  return poisson(expand(rate, extended(shape, rate.sizes())));
}
Tensor Poisson::log_prob(const Tensor& given) const {
  const Tensor value = as_value(given, rate);
  return xlogy(value, rate) - rate - lgamma(value + 1);
}
Tensor Poisson::mode() const { return floor(rate); }

Geometric::Geometric(const ProbsOrLogits& o) {
  const Odds odds = odds_of("Geometric", o);
  probs = odds.probs, logits = odds.logits;
  if (o.probs.defined()) check_positive("Geometric", "probs", probs);
}
Tensor Geometric::sample(const Dims& shape) const {
  const NoGrad no_grad;
  return floor(-log(open_uniform(logits, shape)) / softplus(logits));  // softplus(logits) = -log(1 - probs)
}
Tensor Geometric::log_prob(const Tensor& value) const {
  return -as_value(value, logits) * softplus(logits) - softplus(-logits);
}
Tensor Geometric::entropy() const {
  // -log(probs) - log(1 - probs) (1 - probs) / probs; the second term tends to 1 for small probs.
  const Tensor z = clamp_min(logits, -40);
  return softplus(-logits) + softplus(z) * exp(-z);
}
Tensor Geometric::mean() const { return reciprocal(probs) - 1; }
Tensor Geometric::mode() const { return zeros_like(probs); }
Tensor Geometric::variance() const { return (reciprocal(probs) - 1) / probs; }

namespace {
// total_count, probs and logits as views of one shape
std::vector<Tensor> counted(const char* name, const Parameter& count, const ProbsOrLogits& o) {
  const Odds odds = odds_of(name, o);
  return together(name, {count, odds.probs, odds.logits});
}
}  // namespace

Binomial::Binomial(const Parameter& count, const ProbsOrLogits& o) {
  const auto all = counted("Binomial", count, o);
  total_count = all[0], probs = all[1], logits = all[2];
  check_range("Binomial", "total_count must be a whole number, not negative",
              logical_and(total_count >= 0, total_count == floor(total_count)));
}
Tensor Binomial::sample(const Dims& shape) const {
  const NoGrad no_grad;
  const Dims sizes = extended(shape, probs.sizes());
  return binomial(expand(total_count, sizes), expand(probs, sizes));
}
Tensor Binomial::log_prob(const Tensor& given) const {
  const Tensor value = as_value(given, logits);
  const Tensor failures = total_count - value;
  return lgamma(total_count + 1) - lgamma(value + 1) - lgamma(failures + 1) - value * softplus(-logits) -
         failures * softplus(logits);
}
Tensor Binomial::entropy() const {
  if (probs.numel() == 0) return zeros_like(probs);
  const auto most = static_cast<std::int64_t>(total_count.detach().max().item<double>());
  Dims column = Dims::filled(probs.dim() + 1, 1);
  column[0] = most + 1;
  const Tensor counts = arange(0, static_cast<double>(most + 1), 1, like(probs)).reshape(column);
  const Tensor possible = counts <= total_count, logs = log_prob(minimum(counts, total_count.detach()));
  return -where(possible, exp(logs) * logs, Tensor(0.0)).sum(0);
}
Tensor Binomial::mean() const { return total_count * probs; }
Tensor Binomial::mode() const { return minimum(floor((total_count + 1) * probs), total_count); }
Tensor Binomial::variance() const { return total_count * probs * (1 - probs); }

NegativeBinomial::NegativeBinomial(const Parameter& count, const ProbsOrLogits& o) {
  const auto all = counted("NegativeBinomial", count, o);
  total_count = all[0], probs = all[1], logits = all[2];
  check_positive("NegativeBinomial", "total_count", total_count);
  if (o.probs.defined()) check_range("NegativeBinomial", "probs must be below 1", probs < 1);
}
Tensor NegativeBinomial::sample(const Dims& shape) const {
  const NoGrad no_grad;
  return poisson(standard_gamma(expand(total_count, extended(shape, probs.sizes()))) * exp(logits));
}
Tensor NegativeBinomial::log_prob(const Tensor& given) const {
  const Tensor value = as_value(given, logits);
  return -total_count * softplus(logits) - value * softplus(-logits) + lgamma(total_count + value) - lgamma(value + 1) -
         lgamma(total_count);
}
Tensor NegativeBinomial::mean() const { return total_count * exp(logits); }
Tensor NegativeBinomial::mode() const { return relu(floor((total_count - 1) * exp(logits))); }
Tensor NegativeBinomial::variance() const { return mean() * (1 + exp(logits)); }

Multinomial::Multinomial(std::int64_t count, const ProbsOrLogits& o) : total_count(count) {
  check(count >= 0, "Multinomial: total_count must not be negative, got ", count);
  check_one("Multinomial", o);
  const Categorical one(o);
  probs = one.probs, logits = one.logits;
}
Tensor Multinomial::sample(const Dims& shape) const {
  const NoGrad no_grad;
  // Classes in sequence, each taking a binomial share of the remaining draws: K binomial samples for any total_count.
  const Tensor p = expand(probs, extended(shape, probs.sizes()));
  const Tensor rest = flip(cumsum(flip(p, {-1}), -1), {-1});  // of this class and all following ones
  const Tensor share = where(rest > 0, p / where(rest > 0, rest, Tensor(1.0)), Tensor(0.0));
  Tensor left = full_like(select(p, -1, 0), static_cast<double>(total_count));
  std::vector<Tensor> counts;
  for (std::int64_t k = 0; k + 1 < p.size(-1); ++k) {
    counts.push_back(binomial(left, clamp_max(select(share, -1, k), 1)));
    left = left - counts.back();
  }
  counts.push_back(left);
  return stack(counts, -1);
}
Tensor Multinomial::log_prob(const Tensor& given) const {
  const Tensor value = as_value(given, logits);
  const Tensor each = where(value == 0, Tensor(0.0), value * logits);  // 0 also for a class of probability 0
  return lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1) + each.sum(-1);
}
Tensor Multinomial::entropy() const {
  const auto n = static_cast<double>(total_count);
  const Tensor one = -xlogy(probs, probs).sum(-1) * n - lgamma(full_like(select(probs.detach(), -1, 0), n + 1));
  if (total_count == 0) return one;
  Dims column = Dims::filled(probs.dim() + 1, 1);
  column[0] = total_count;
  const Tensor counts = arange(1, n + 1, 1, like(probs)).reshape(column);
  const Tensor weights = exp(Binomial(n, {.probs = probs}).log_prob(counts));
  return one + (weights * lgamma(counts + 1)).sum({0, -1});
}
Tensor Multinomial::mean() const { return static_cast<double>(total_count) * probs; }
Tensor Multinomial::variance() const { return static_cast<double>(total_count) * probs * (1 - probs); }

}  // namespace mantissa::distributions
