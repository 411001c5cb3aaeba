// Distributions over counts 0, 1, 2, ..., in the dtype of the parameters. Read nn/distributions.h first.
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

// The number of failures before the first success, in trials with success probability probs > 0.
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

// The number of successes in total_count trials with success probability probs.
struct Binomial : Distribution<Binomial> {
  Binomial(const Parameter& total_count, const ProbsOrLogits& o);  // total_count: an integer >= 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;  // sums over all counts: needs largest total_count values of memory per element
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Tensor total_count, probs, logits;
};

// The number of successes, of probability probs < 1, before the total_count-th failure; total_count > 0 may be
// fractional.
struct NegativeBinomial : Distribution<NegativeBinomial> {
  NegativeBinomial(const Parameter& total_count, const ProbsOrLogits& o);
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Tensor total_count, probs, logits;
};

// How often each of K classes occurs in total_count draws: [..., K]. probs or logits [..., K] as for Categorical.
struct Multinomial : Distribution<Multinomial> {
  Multinomial(std::int64_t total_count, const ProbsOrLogits& o);
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // value: counts that sum to total_count
  Tensor entropy() const;
  Tensor mean() const;
  Tensor variance() const;
  std::int64_t total_count;
  Tensor probs, logits;
};

}  // namespace mantissa::distributions
