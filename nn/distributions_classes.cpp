#include "nn/distributions_classes.h"

#include <cmath>

namespace mantissa::distributions {
using namespace detail;

Bernoulli::Bernoulli(const ProbsOrLogits& o) {
  const Odds odds = odds_of("Bernoulli", o);
  probs = odds.probs, logits = odds.logits;
}
Tensor Bernoulli::sample(const Dims& shape) const {
  const NoGrad no_grad;
  return bernoulli(expand(probs, extended(shape, probs.sizes())));
}
Tensor Bernoulli::log_prob(const Tensor& given) const {
  const Tensor value = as_value(given, logits);
  const Dims sizes = broadcast(value.sizes(), logits.sizes());
  return -binary_cross_entropy_with_logits(expand(logits, sizes), expand(value, sizes), {}, Reduction::none);
}
Tensor Bernoulli::entropy() const { return binary_cross_entropy_with_logits(logits, probs, {}, Reduction::none); }
Tensor Bernoulli::mode() const { return where(probs == 0.5, Tensor(NAN), cast(probs > 0.5, probs.dtype())); }
Tensor Bernoulli::variance() const { return probs * (1 - probs); }

Categorical::Categorical(const ProbsOrLogits& o) {
  check_one("Categorical", o);
  const Tensor x = wide(o.probs.defined() ? o.probs : o.logits);
  check(x.dim() >= 1 && x.size(-1) > 0, "Categorical: needs [..., K] with at least one class, got ", x);
  if (o.probs.defined()) {
    check_range("Categorical", "probs must not be negative, nor all 0", logical_and(amin(x, -1) >= 0, x.sum(-1) > 0));
    probs = x / x.sum(-1, true);
    logits = log(clamp(probs, smallest_step(x), 1 - smallest_step(x)));
  } else {
    logits = log_softmax(x, -1);
    probs = softmax(x, -1);
  }
}
Tensor Categorical::sample(const Dims& shape) const {
  const NoGrad no_grad;
  Dims batch = probs.sizes();
  batch.erase(batch.rank() - 1);
  const Tensor drawn = multinomial(probs.detach().reshape({-1, probs.size(-1)}), numel_of(shape), true);  // [N, n]
  return drawn.t().contiguous().reshape(extended(shape, batch));
}
Tensor Categorical::log_prob(const Tensor& value) const {
  check(!value.is_floating(), "Categorical: a value is a class number, i64, got ", value);
  const Tensor index = cast(value, i64).unsqueeze(-1);
  Dims sizes = broadcast(index.sizes(), slice(logits, -1, 0, 1).sizes()), all = sizes;
  all.back() = logits.size(-1);
  return gather(expand(logits, all), -1, expand(index, sizes)).squeeze(-1);
}
Tensor Categorical::entropy() const {
  return -(probs * clamp_min(logits, probs.dtype() == f64 ? -1e300 : -1e38)).sum(-1);  // 0 log 0 is 0
}
Tensor Categorical::mode() const { return argmax(probs, -1); }

Tensor OneHotCategorical::sample(const Dims& shape) const {
  return cast(one_hot(base.sample(shape), base.probs.size(-1)), base.probs.dtype());
}
Tensor OneHotCategorical::rsample(const Dims& shape) const {
  return sample(shape) + (base.probs - base.probs.detach());
}
Tensor OneHotCategorical::log_prob(const Tensor& value) const { return base.log_prob(argmax(value, -1)); }
Tensor OneHotCategorical::mode() const { return cast(one_hot(base.mode(), base.probs.size(-1)), base.probs.dtype()); }
Tensor OneHotCategorical::variance() const { return base.probs * (1 - base.probs); }

RelaxedOneHotCategorical::RelaxedOneHotCategorical(double t, const ProbsOrLogits& o) : temperature(t), base(o) {
  check(t > 0, "RelaxedOneHotCategorical: the temperature must be positive, got ", t);
}
Tensor RelaxedOneHotCategorical::rsample(const Dims& shape) const {
  return softmax((base.logits - log(-log(open_uniform(base.logits, shape)))) / temperature, -1);
}
Tensor RelaxedOneHotCategorical::log_prob(const Tensor& value) const {
  const Tensor logs = log(wide(value));
  const auto k = static_cast<double>(base.logits.size(-1));
  return log_softmax(base.logits - temperature * logs, -1).sum(-1) - logs.sum(-1) + std::lgamma(k) +
         (k - 1) * std::log(temperature);
}

}  // namespace mantissa::distributions
