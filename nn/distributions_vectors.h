// Multivariate normal distributions over vectors [..., D]. Read nn/distributions.h first.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

// Mean loc [..., D] and lower Cholesky factor scale_tril [..., D, D]: covariance scale_tril scale_tril^T. Batches
// broadcast.
struct MultivariateNormal : Reparameterized<MultivariateNormal> {
  MultivariateNormal(const Tensor& loc, const Tensor& scale_tril);
  static MultivariateNormal of_covariance(const Tensor& loc, const Tensor& covariance);
  static MultivariateNormal of_precision(const Tensor& loc, const Tensor& precision);  // covariance's inverse
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return loc; }
  Tensor mode() const { return loc; }
  Tensor variance() const;           // [..., D]
  Tensor covariance_matrix() const;  // [..., D, D]
  Tensor precision_matrix() const;
  Tensor loc, scale_tril;
};

// Covariance cov_factor cov_factor^T + diag(cov_diag), with cov_factor [..., D, R] and cov_diag [..., D] > 0. For large
// D: all costs are O(D) for fixed R, not O(D^2).
struct LowRankMultivariateNormal : Reparameterized<LowRankMultivariateNormal> {
  LowRankMultivariateNormal(const Tensor& loc, const Tensor& cov_factor, const Tensor& cov_diag);
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return loc; }
  Tensor mode() const { return loc; }
  Tensor variance() const;
  Tensor covariance_matrix() const;  // [..., D, D]
  Tensor precision_matrix() const;
  Tensor loc, cov_factor, cov_diag;
  Tensor capacitance_tril;  // [..., R, R], lower Cholesky factor of I + W^T D^-1 W
};

namespace detail {
Tensor half_log_det(const Tensor& scale_tril);  // half the log determinant of scale_tril scale_tril^T
Tensor log_det(const LowRankMultivariateNormal& d);
// (x - loc)^T Sigma^-1 (x - loc)
Tensor mahalanobis(const MultivariateNormal& d, const Tensor& x);
Tensor mahalanobis(const LowRankMultivariateNormal& d, const Tensor& x);
// A = K^-1 W^T D^-1 [..., R, D], for Sigma^-1 = D^-1 - A^T A
Tensor low_rank_root(const LowRankMultivariateNormal& d);
}  // namespace detail

}  // namespace mantissa::distributions
