// The von Mises distribution of angles. Read nn/distributions.h first.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

// Angles in [-pi, pi) around loc; for a concentration above 10 close to a wrapped normal distribution of variance 1 /
// concentration. Sampled by rejection (Best and Fisher, 1979) in f64, with a device synchronisation per round; no
// rsample.
struct VonMises : Distribution<VonMises> {
  VonMises(const Parameter& loc, const Parameter& concentration);  // concentration > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return loc; }  // circular mean
  Tensor mode() const { return loc; }
  Tensor variance() const;  // circular variance: 1 - mean of cos(value - loc)
  Tensor loc, concentration;
};

}  // namespace mantissa::distributions
