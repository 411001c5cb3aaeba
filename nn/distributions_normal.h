// The normal distribution and distributions of functions of it. Read nn/distributions.h first.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

struct Normal : Reparameterized<Normal> {
  Normal(const Parameter& loc, const Parameter& scale);  // scale > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const { return loc; }
  Tensor mode() const { return loc; }
  Tensor stddev() const { return scale; }
  Tensor variance() const;
  Tensor loc, scale;
};

struct LogNormal : Reparameterized<LogNormal> {  // exp(x) for x ~ Normal(loc, scale)
  LogNormal(const Parameter& loc, const Parameter& scale) : base(loc, scale) {}
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Normal base;
};

struct HalfNormal : Reparameterized<HalfNormal> {  // |x| for x ~ Normal(0, scale)
  explicit HalfNormal(const Parameter& scale);     // scale > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // -infinity below 0
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Tensor scale;
};

// tanh(x) for x ~ Normal(loc, scale): the squashed actions of soft actor-critic (Haarnoja et al., 2018).
// log_prob(value) has to invert tanh, which is inaccurate near -1 and 1: prefer rsample_and_log_prob where possible.
struct TanhNormal : Reparameterized<TanhNormal> {
  TanhNormal(const Parameter& loc, const Parameter& scale) : base(loc, scale) {}
  struct Scored {
    Tensor value, log_prob;
  };
  Scored rsample_and_log_prob(const Dims& shape = {}) const;
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Normal base;
};

}  // namespace mantissa::distributions
