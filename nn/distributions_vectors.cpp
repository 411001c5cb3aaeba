#include "nn/distributions_vectors.h"

#include <cmath>
#include <numbers>

#include "core/ops_matrix.h"
#include "core/random.h"

namespace mantissa::distributions {
using namespace detail;
namespace {
const double log_2pi = std::log(2 * std::numbers::pi);
Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }
Tensor with_last(const Dims& batch, const Tensor& x, std::int64_t last) {  // x expanded to [batch..., last]
  Dims sizes = batch;
  sizes.push_back(last);
  return expand(x, sizes);
}
Dims without_last(Dims sizes, int count) {
  for (int i = 0; i < count; ++i) sizes.erase(sizes.rank() - 1);
  return sizes;
}
}  // namespace

namespace detail {
Tensor half_log_det(const Tensor& scale_tril) { return log(diagonal(scale_tril, 0, -2, -1)).sum(-1); }
Tensor mahalanobis(const MultivariateNormal& d, const Tensor& value) {
  const Tensor x = wide(value) - d.loc;
  const Tensor tril = expand(d.scale_tril, extended(x.sizes(), Dims{x.size(-1)}));
  return square(solve_triangular(tril, x.unsqueeze(-1), false)).sum({-2, -1});
}
Tensor log_det(const LowRankMultivariateNormal& d) {
  return 2 * half_log_det(d.capacitance_tril) + log(d.cov_diag).sum(-1);
}
Tensor low_rank_root(const LowRankMultivariateNormal& d) {
  return solve_triangular(d.capacitance_tril, transposed(d.cov_factor / d.cov_diag.unsqueeze(-1)), false);
}
Tensor mahalanobis(const LowRankMultivariateNormal& d, const Tensor& value) {
  const Tensor x = wide(value) - d.loc;
  return (square(x) / d.cov_diag).sum(-1) - square(matmul(low_rank_root(d), x.unsqueeze(-1))).sum({-2, -1});
}
}  // namespace detail

MultivariateNormal::MultivariateNormal(const Tensor& l, const Tensor& s) {
  check(l.is_floating() && s.is_floating() && l.dim() >= 1 && s.dim() >= 2 && s.size(-1) == l.size(-1) &&
            s.size(-2) == l.size(-1),
        "MultivariateNormal: needs loc [..., D] and scale_tril [..., D, D], got ", l, " and ", s);
  const Tensor mean = wide(l), tril = wide(s);
  const Dims batch = broadcast(mean.unsqueeze(-1).sizes(), slice(tril, -1, 0, 1).sizes());
  Dims square_batch = batch;
  square_batch.back() = mean.size(-1);
  scale_tril = expand(tril, square_batch);
  loc = expand(mean.unsqueeze(-1), batch).squeeze(-1);
  check_positive("MultivariateNormal", "the diagonal of scale_tril", diagonal(scale_tril, 0, -2, -1));
}
MultivariateNormal MultivariateNormal::of_covariance(const Tensor& loc, const Tensor& covariance) {
  return {loc, cholesky(wide(covariance))};
}
MultivariateNormal MultivariateNormal::of_precision(const Tensor& loc, const Tensor& precision) {
  // With P reversed = L L^T: P^-1 = U U^T with lower U = (L reversed)^-T. Avoids inverting P, which may be nearly
  // singular.
  const Tensor p = wide(precision), reversed = flip(cholesky(flip(p, {-2, -1})), {-2, -1});
  const Tensor identity = eye(p.size(-1), like(p));
  return {loc, solve_triangular(transposed(reversed), expand(identity, p.sizes()), false)};
}
Tensor MultivariateNormal::rsample(const Dims& shape) const {
  return loc + matmul(scale_tril, noise(loc, shape).unsqueeze(-1)).squeeze(-1);
}
Tensor MultivariateNormal::log_prob(const Tensor& value) const {
  return -0.5 * mahalanobis(*this, value) - half_log_det(scale_tril) -
         0.5 * log_2pi * static_cast<double>(loc.size(-1));
}
Tensor MultivariateNormal::entropy() const {
  return static_cast<double>(loc.size(-1)) * (0.5 + 0.5 * log_2pi) + half_log_det(scale_tril);
}
Tensor MultivariateNormal::variance() const { return square(scale_tril).sum(-1); }
Tensor MultivariateNormal::covariance_matrix() const { return matmul(scale_tril, transposed(scale_tril)); }
Tensor MultivariateNormal::precision_matrix() const {
  const Tensor inverse = solve_triangular(scale_tril, expand(eye(loc.size(-1), like(loc)), scale_tril.sizes()), false);
  return matmul(transposed(inverse), inverse);
}

LowRankMultivariateNormal::LowRankMultivariateNormal(const Tensor& l, const Tensor& w, const Tensor& d) {
  check(l.is_floating() && w.is_floating() && d.is_floating() && l.dim() >= 1 && w.dim() >= 2 && d.dim() >= 1 &&
            w.size(-2) == l.size(-1) && d.size(-1) == l.size(-1),
        "LowRankMultivariateNormal: needs loc [..., D], cov_factor [..., D, R] and cov_diag [..., D], got ", l, ", ", w,
        " and ", d);
  const Tensor mean = wide(l), factor = wide(w), diag = wide(d);
  const Dims batch =
      without_last(broadcast(broadcast(mean.sizes(), diag.sizes()), slice(factor, -1, 0, 1).squeeze(-1).sizes()), 1);
  const std::int64_t size = mean.size(-1), rank = factor.size(-1);
  loc = with_last(batch, mean, size);
  cov_diag = with_last(batch, diag, size);
  cov_factor = with_last(extended(batch, Dims{size}), factor, rank);
  check_positive("LowRankMultivariateNormal", "cov_diag", cov_diag);
  const Tensor inside = matmul(transposed(cov_factor), cov_factor / cov_diag.unsqueeze(-1));
  capacitance_tril = cholesky(inside + eye(rank, like(inside)));
}
Tensor LowRankMultivariateNormal::rsample(const Dims& shape) const {
  Dims few = loc.sizes();
  few.back() = cov_factor.size(-1);
  const Tensor common = randn(extended(shape, few), like(loc)).unsqueeze(-1);
  return loc + matmul(cov_factor, common).squeeze(-1) + sqrt(cov_diag) * noise(loc, shape);
}
Tensor LowRankMultivariateNormal::log_prob(const Tensor& value) const {
  return -0.5 * (mahalanobis(*this, value) + log_det(*this) + log_2pi * static_cast<double>(loc.size(-1)));
}
Tensor LowRankMultivariateNormal::entropy() const {
  return 0.5 * (static_cast<double>(loc.size(-1)) * (1 + log_2pi) + log_det(*this));
}
Tensor LowRankMultivariateNormal::variance() const { return square(cov_factor).sum(-1) + cov_diag; }
Tensor LowRankMultivariateNormal::covariance_matrix() const {
  return matmul(cov_factor, transposed(cov_factor)) + diag_embed(cov_diag);
}
Tensor LowRankMultivariateNormal::precision_matrix() const {
  const Tensor root = low_rank_root(*this);
  return diag_embed(reciprocal(cov_diag)) - matmul(transposed(root), root);
}

}  // namespace mantissa::distributions
