// Distributions of counts: 0, 1, 2, ... in the dtype of the parameters. Read first: nn/distributions.h.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

struct Poisson : Distribution<Poisson> {
  explicit Poisson(const Parameter& rate);  // rate >= 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor mean() const { return rate; }
  Tensor mode() const;
  Tensor variance() const { return rate; }
  Tensor rate;
};

// Failures before the first success, in trials that succeed with probs > 0.
struct Geometric : Distribution<Geometric> {
  Geometric(const ProbsOrLogits& o);
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Tensor probs, logits;
};

// Successes in total_count trials that succeed with probs.
struct Binomial : Distribution<Binomial> {
  Binomial(const Parameter& total_count, const ProbsOrLogits& o);  // total_count a whole number >= 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;  // a sum over all counts: of a memory of the largest total_count for each element
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Tensor total_count, probs, logits;
};

// Successes, which come with probs < 1, before the total_count-th failure; total_count > 0 may be a fraction.
struct NegativeBinomial : Distribution<NegativeBinomial> {
  NegativeBinomial(const Parameter& total_count, const ProbsOrLogits& o);
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Tensor total_count, probs, logits;
};

// How often each of K classes was drawn in total_count draws: [..., K], of probs or logits [..., K] as a Categorical's.
struct Multinomial : Distribution<Multinomial> {
  Multinomial(std::int64_t total_count, const ProbsOrLogits& o);
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // of counts that sum to total_count
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  std::int64_t total_count;
  Tensor probs, logits;
};

}  // namespace mantissa::distributions
