// The gamma distribution, and what is made of draws of it. Read first: nn/distributions.h.
//
// All of them are drawn by rejection (Marsaglia and Tsang, 2000), whose rounds wait for the device. Gradients go
// through draws by implicit reparameterisation (Figurnov, Mohamed and Mnih, 2018), once: not with create_graph.
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

struct Chi2 : Gamma {  // of df > 0 degrees of freedom
  explicit Chi2(const Parameter& df);
};

// 1 / x of a Gamma(concentration, rate). The mean is infinite for a concentration <= 1, the variance for one <= 2.
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

// The ratio of two Chi2, each divided by its degrees of freedom: the F distribution. The mean is NaN for df2 <= 2, the
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
  Tensor mode() const;  // as of a Dirichlet
  Tensor variance() const;
  Tensor concentration1, concentration0;
};

struct Dirichlet : Reparameterized<Dirichlet> {
  explicit Dirichlet(const Tensor& concentration);  // [..., K], > 0
  Tensor rsample(const Dims& shape = {}) const;     // [shape..., ..., K]
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;  // NaN where no concentration exceeds 1: the density grows towards the corners, or is even
  Tensor variance() const;
  Tensor concentration;
};

}  // namespace mantissa::distributions
