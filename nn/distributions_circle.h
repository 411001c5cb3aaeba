// The distribution of angles. Read first: nn/distributions.h.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

// Of angles in [-pi, pi), around loc; normal, wrapped around the circle, up to little for a concentration above 10,
// where it has the variance 1 / concentration. Draws by rejection (Best and Fisher, 1979), in f64, whose rounds wait
// for the device; no gradient through them.
struct VonMises : Distribution<VonMises> {
  VonMises(const Parameter& loc, const Parameter& concentration);  // concentration > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return loc; }  // the direction
  Tensor mode() const { return loc; }
  Tensor variance() const;  // 1 less the mean of cos(value - loc)
  Tensor loc, concentration;
};

}  // namespace mantissa::distributions
