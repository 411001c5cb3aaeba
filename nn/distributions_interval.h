// Distributions of numbers in an interval. (Beta is in nn/distributions_gamma.h.) Read first: nn/distributions.h.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

struct Uniform : Reparameterized<Uniform> {
  Uniform(const Parameter& low, const Parameter& high);  // low < high
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // -infinity outside [low, high)
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  Tensor low, high;
};

// Of (0, 1), much like Beta(concentration1, concentration0), with a distribution function that can be inverted.
struct Kumaraswamy : Reparameterized<Kumaraswamy> {
  Kumaraswamy(const Parameter& concentration1, const Parameter& concentration0);  // both > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;  // NaN where a concentration is below 1, or both are 1
  Tensor variance() const;
  Tensor concentration1, concentration0;
};

// Of [0, 1], with density C probs^x (1 - probs)^(1 - x) (Loaiza-Ganem and Cunningham, 2019): for pixels, of which the
// Bernoulli likelihood is none. All of it is computed from the logits, by series near probs = 1/2 (where PyTorch's
// draws and distribution function are those of probs = 1/2).
struct ContinuousBernoulli : Reparameterized<ContinuousBernoulli> {
  ContinuousBernoulli(const ProbsOrLogits& o);
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  Tensor probs, logits;
};

// Logits whose sigmoids are draws of RelaxedBernoulli.
struct LogitRelaxedBernoulli : Reparameterized<LogitRelaxedBernoulli> {
  LogitRelaxedBernoulli(double temperature, const ProbsOrLogits& o);  // temperature > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  double temperature;
  Tensor probs, logits;
};
// Numbers in (0, 1) that come to 0 or 1, as draws of a Bernoulli, as the temperature goes to 0, with gradients
// (Maddison et al., 2017; Jang et al., 2017).
struct RelaxedBernoulli : Reparameterized<RelaxedBernoulli> {
  RelaxedBernoulli(double temperature, const ProbsOrLogits& o) : base(temperature, o) {}  // temperature > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  LogitRelaxedBernoulli base;
};

}  // namespace mantissa::distributions
