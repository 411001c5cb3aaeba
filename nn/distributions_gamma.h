// The gamma distribution and those sampled through it. Read nn/distributions.h first.
//
// All are sampled by rejection (Marsaglia and Tsang, 2000), with a device synchronisation per round. Gradients flow
// through samples by implicit reparameterisation (Figurnov, Mohamed and Mnih, 2018), first order only: not with
// create_graph.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

struct Gamma : Reparameterized<Gamma> {
  Gamma(const Parameter& concentration, const Parameter& rate);  // both > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Tensor concentration, rate;
};

struct Chi2 : Gamma {  // with df > 0 degrees of freedom
  explicit Chi2(const Parameter& df);
};

// 1 / x for x ~ Gamma(concentration, rate). The mean is infinite for concentration <= 1, the variance for <= 2.
struct InverseGamma : Reparameterized<InverseGamma> {
  InverseGamma(const Parameter& concentration, const Parameter& rate) : base(concentration, rate) {}  // both > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Gamma base;
};

// The F distribution: the ratio of two Chi2, each divided by its degrees of freedom. The mean is NaN for df2 <= 2, the
// variance for df2 <= 4, the mode for df1 <= 2.
struct FisherSnedecor : Reparameterized<FisherSnedecor> {
  FisherSnedecor(const Parameter& df1, const Parameter& df2);  // both > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor mean() const;
  Tensor mode() const;
  Tensor variance() const;
  Tensor df1, df2;
};

struct Beta : Reparameterized<Beta> {
  Beta(const Parameter& concentration1, const Parameter& concentration0);  // alpha and beta, both > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;  // as Dirichlet's
  Tensor variance() const;
  Tensor concentration1, concentration0;
};

struct Dirichlet : Reparameterized<Dirichlet> {
  explicit Dirichlet(const Tensor& concentration);  // [..., K], > 0
  Tensor rsample(const Dims& shape = {}) const;     // [shape..., ..., K]
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;  // NaN where no concentration exceeds 1: no interior maximum
  Tensor variance() const;
  Tensor concentration;
};

}  // namespace mantissa::distributions
