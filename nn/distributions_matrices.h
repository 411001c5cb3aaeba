// Distributions over matrices [..., D, D]: covariances and correlations. Read nn/distributions.h first.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

// Positive definite matrices: the sum of x x^T over df vectors x drawn from a normal distribution with covariance
// scale_tril scale_tril^T. df > D - 1, of any batch shape; scale_tril [..., D, D]. Sampled with the Bartlett
// decomposition; gradients through samples are those of Gamma.
struct Wishart : Reparameterized<Wishart> {
  Wishart(const Parameter& df, const Tensor& scale_tril);
  static Wishart of_covariance(const Parameter& df, const Tensor& covariance);
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const;  // NaN for df <= D + 1
  Tensor variance() const;
  Tensor df, scale_tril;
};

// The lower Cholesky factor of a correlation matrix [..., dim, dim], whose density is proportional to
// det^(concentration - 1) (Lewandowski, Kurowicka and Joe, 2009): 1 is uniform; larger values favour weaker
// correlations. Sampled with the onion method; no rsample.
struct LKJCholesky : Distribution<LKJCholesky> {
  LKJCholesky(int dim, const Parameter& concentration = 1);  // dim >= 2, concentration > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  int dim;
  Tensor concentration;
};

}  // namespace mantissa::distributions
