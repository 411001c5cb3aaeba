// Times to wait, sizes of what is rare: distributions of positive numbers with a distribution function that can be
// inverted. Read first: nn/distributions.h.
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

// Of numbers >= scale. The mean is infinite for alpha <= 1, the variance for alpha <= 2.
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

// What exceeds a threshold loc: for a concentration of 0 exponential, above it with a heavy tail, below it up to
// loc - scale / concentration. The mean is infinite for a concentration >= 1, the variance for one >= 1/2.
struct GeneralizedPareto : Reparameterized<GeneralizedPareto> {
  GeneralizedPareto(const Parameter& loc, const Parameter& scale, const Parameter& concentration);  // scale > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // -infinity outside
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const { return loc; }
  Tensor variance() const;
  Tensor loc, scale, concentration;
};

}  // namespace mantissa::distributions
