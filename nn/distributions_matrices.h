// Distributions of matrices [..., D, D]: covariances and correlations. Read first: nn/distributions.h.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

// Of positive definite matrices: of df vectors x, drawn from a normal distribution with covariance
// scale_tril scale_tril^T, the sum of x x^T. df > D - 1, of any batch; scale_tril [..., D, D]. Draws by the Bartlett
// decomposition; their gradients are those of Gamma.
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

// The lower triangle of a correlation matrix [..., dim, dim], whose density is proportional to
// det^(concentration - 1) (Lewandowski, Kurowicka and Joe, 2009): 1 is uniform, more is nearer to no correlation.
// Draws by the onion method; no gradient through them.
struct LKJCholesky : Distribution<LKJCholesky> {
  LKJCholesky(int dim, const Parameter& concentration = 1);  // dim >= 2, concentration > 0
  Tensor sample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  int dim;
  Tensor concentration;
};

}  // namespace mantissa::distributions
