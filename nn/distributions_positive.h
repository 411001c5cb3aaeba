// Waiting times and extreme values: distributions over positive numbers with an invertible distribution function. Read
// nn/distributions.h first.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

struct Exponential : Reparameterized<Exponential> {
  explicit Exponential(const Parameter& rate);  // rate > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Tensor rate;
};

struct Weibull : Reparameterized<Weibull> {
  Weibull(const Parameter& scale, const Parameter& concentration);  // both > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;  // 0 for a concentration <= 1
  Tensor variance() const;
  Tensor scale, concentration;
};

// On [scale, infinity). The mean is infinite for alpha <= 1, the variance for alpha <= 2.
struct Pareto : Reparameterized<Pareto> {
  Pareto(const Parameter& scale, const Parameter& alpha);  // both > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // -infinity below scale
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const { return scale; }
  Tensor variance() const;
  Tensor scale, alpha;
};

// Excesses over a threshold loc: exponential for concentration = 0, heavy-tailed above it, bounded by loc - scale /
// concentration below it. The mean is infinite for concentration >= 1, the variance for >= 1/2.
struct GeneralizedPareto : Reparameterized<GeneralizedPareto> {
  GeneralizedPareto(const Parameter& loc, const Parameter& scale, const Parameter& concentration);  // scale > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // -infinity outside the support
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const { return loc; }
  Tensor variance() const;
  Tensor loc, scale, concentration;
};

}  // namespace mantissa::distributions
