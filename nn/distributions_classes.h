// Distributions over a finite number of outcomes. Read nn/distributions.h first.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

struct Bernoulli : Distribution<Bernoulli> {
  Bernoulli(const ProbsOrLogits& o);
  Tensor sample(const Dims& shape = {}) const;  // 0 or 1, in the dtype of the parameters
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return probs; }
  Tensor mode() const;  // NaN for probs = 1/2
  Tensor variance() const;
  Tensor probs, logits;
};

// Over the last dimension, [..., K]. probs need not sum to 1: probs and logits are normalised.
struct Categorical : Distribution<Categorical> {
  Categorical(const ProbsOrLogits& o);
  Tensor sample(const Dims& shape = {}) const;  // i64 [shape..., ...]
  Tensor log_prob(const Tensor& value) const;   // value i64, broadcasts with the batch
  Tensor entropy() const;
  Tensor mode() const;
  Tensor probs, logits;
};

struct OneHotCategorical : Distribution<OneHotCategorical> {  // the same with samples as one-hot vectors [..., K]
  OneHotCategorical(const ProbsOrLogits& o) : base(o) {}
  Tensor sample(const Dims& shape = {}) const;
  // A sample whose gradient is that of probs (OneHotCategoricalStraightThrough; Bengio et al., 2013).
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const { return base.entropy(); }
  Tensor mean() const { return base.probs; }
  Tensor mode() const;
  Tensor variance() const;
  Categorical base;
};

// Points inside the simplex [..., K], which approach its corners as the temperature goes to 0, with gradients (the
// concrete distribution: Maddison et al., 2017; Jang et al., 2017). gumbel_softmax samples from it.
struct RelaxedOneHotCategorical : Reparameterized<RelaxedOneHotCategorical> {
  RelaxedOneHotCategorical(double temperature, const ProbsOrLogits& o);  // temperature > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // the density at value > 0
  double temperature;
  Categorical base;
};

}  // namespace mantissa::distributions
