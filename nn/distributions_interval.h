// Distributions on an interval. (Beta is in nn/distributions_gamma.h.) Read nn/distributions.h first.
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

// On (0, 1), similar to Beta(concentration1, concentration0), but with an invertible distribution function.
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

// On [0, 1], with density C probs^x (1 - probs)^(1 - x) (Loaiza-Ganem and Cunningham, 2019): a proper likelihood for
// pixel values, which Bernoulli's is not. Everything is computed from the logits, with a series near probs = 1/2 (where
// PyTorch samples, and evaluates cdf, as if probs were 1/2).
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

// Logits: sigmoid of a sample is a sample of RelaxedBernoulli.
struct LogitRelaxedBernoulli : Reparameterized<LogitRelaxedBernoulli> {
  LogitRelaxedBernoulli(double temperature, const ProbsOrLogits& o);  // temperature > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  double temperature;
  Tensor probs, logits;
};
// Numbers in (0, 1) that approach Bernoulli samples as the temperature goes to 0, with gradients (Maddison et al.,
// 2017; Jang et al., 2017).
struct RelaxedBernoulli : Reparameterized<RelaxedBernoulli> {
  RelaxedBernoulli(double temperature, const ProbsOrLogits& o) : base(temperature, o) {}  // temperature > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  LogitRelaxedBernoulli base;
};

}  // namespace mantissa::distributions
