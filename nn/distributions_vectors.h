// Multivariate normal distributions: an event is a vector [..., D]. Read first: nn/distributions.h.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

// loc [..., D] and the lower triangle scale_tril [..., D, D] with covariance scale_tril scale_tril^T; batches
// broadcast.
struct MultivariateNormal : Reparameterized<MultivariateNormal> {
  MultivariateNormal(const Tensor& loc, const Tensor& scale_tril);
  static MultivariateNormal of_covariance(const Tensor& loc, const Tensor& covariance);
  static MultivariateNormal of_precision(const Tensor& loc, const Tensor& precision);  // the covariance's inverse
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

// The covariance is cov_factor cov_factor^T + diag(cov_diag), of cov_factor [..., D, R] and cov_diag [..., D] > 0: for
// vectors so long that D^2 is too much, all that is computed is of order D R.
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
  Tensor capacitance_tril;  // [..., R, R], the lower triangle of I + W^T D^-1 W
};

namespace detail {
Tensor half_log_det(const Tensor& scale_tril);  // of scale_tril scale_tril^T
Tensor log_det(const LowRankMultivariateNormal& d);
// (x - loc)^T Sigma^-1 (x - loc)
Tensor mahalanobis(const MultivariateNormal& d, const Tensor& x);
Tensor mahalanobis(const LowRankMultivariateNormal& d, const Tensor& x);
// K^-1 W^T D^-1 [..., R, D], with which Sigma^-1 is D^-1 less its square
Tensor low_rank_root(const LowRankMultivariateNormal& d);
}  // namespace detail

}  // namespace mantissa::distributions
