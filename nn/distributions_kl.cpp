#include "nn/distributions_kl.h"

#include <cmath>
#include <numbers>

#include "core/ops_matrix.h"
#include "core/ops_special.h"

namespace mantissa::distributions {
using namespace detail;
namespace {
constexpr double pi = std::numbers::pi, euler = std::numbers::egamma;
}  // namespace

// --- same family ---
Tensor kl_divergence(const Normal& p, const Normal& q) {
  const Tensor ratio = square(p.scale / q.scale);
  return 0.5 * (ratio + square((p.loc - q.loc) / q.scale) - 1 - log(ratio));
}
Tensor kl_divergence(const LogNormal& p, const LogNormal& q) { return kl_divergence(p.base, q.base); }
Tensor kl_divergence(const HalfNormal& p, const HalfNormal& q) {
  const Tensor ratio = square(p.scale / q.scale);
  return 0.5 * (ratio - 1 - log(ratio));
}
Tensor kl_divergence(const Laplace& p, const Laplace& q) {
  const Tensor ratio = p.scale / q.scale, distance = abs(p.loc - q.loc);
  return -log(ratio) + distance / q.scale + ratio * exp(-distance / p.scale) - 1;
}
Tensor kl_divergence(const Cauchy& p, const Cauchy& q) {  // Chyzak and Nielsen, 2019
  return log(square(p.scale + q.scale) + square(p.loc - q.loc)) - log(4 * p.scale * q.scale);
}
Tensor kl_divergence(const Gumbel& p, const Gumbel& q) {
  const Tensor ratio = p.scale / q.scale, distance = (p.loc - q.loc) / q.scale;
  return distance - log(ratio) + euler * ratio + exp(lgamma(1 + ratio) - distance) - (1 + euler);
}
Tensor kl_divergence(const Uniform& p, const Uniform& q) {
  const Tensor beyond = logical_or(q.low > p.low, q.high < p.high);
  return masked_fill(log((q.high - q.low) / (p.high - p.low)), beyond, HUGE_VAL);
}
Tensor kl_divergence(const ContinuousBernoulli& p, const ContinuousBernoulli& q) {
  return -p.entropy() - q.log_prob(p.mean());
}
Tensor kl_divergence(const Exponential& p, const Exponential& q) {
  const Tensor ratio = q.rate / p.rate;
  return -log(ratio) + ratio - 1;
}
Tensor kl_divergence(const Pareto& p, const Pareto& q) {
  const Tensor ratio = q.alpha / p.alpha, kl = q.alpha * log(p.scale / q.scale) - log(ratio) + ratio - 1;
  return where(p.scale < q.scale, Tensor(HUGE_VAL), kl);
}
Tensor kl_divergence(const Gamma& p, const Gamma& q) {
  return q.concentration * log(p.rate / q.rate) + lgamma(q.concentration) - lgamma(p.concentration) +
         (p.concentration - q.concentration) * digamma(p.concentration) +
         (q.rate - p.rate) * (p.concentration / p.rate);
}
Tensor kl_divergence(const InverseGamma& p, const InverseGamma& q) { return kl_divergence(p.base, q.base); }
Tensor kl_divergence(const Beta& p, const Beta& q) {
  const Tensor &a = p.concentration1, &b = p.concentration0;
  return log_beta(q.concentration1, q.concentration0) - log_beta(a, b) + (a - q.concentration1) * digamma(a) +
         (b - q.concentration0) * digamma(b) + (q.concentration1 + q.concentration0 - a - b) * digamma(a + b);
}
Tensor kl_divergence(const Dirichlet& p, const Dirichlet& q) {
  const Tensor total = p.concentration.sum(-1);
  const Tensor each = (p.concentration - q.concentration) * (digamma(p.concentration) - digamma(total).unsqueeze(-1));
  return lgamma(total) - lgamma(q.concentration.sum(-1)) - (lgamma(p.concentration) - lgamma(q.concentration)).sum(-1) +
         each.sum(-1);
}
namespace {
// 0 where p is 0, else infinite where q is 0; logits are finite even then.
Tensor where_possible(const Tensor& p, const Tensor& q, const Tensor& each) {
  return where(p == 0, Tensor(0.0), where(q == 0, Tensor(HUGE_VAL), each));
}
}  // namespace
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  const Tensor one = where_possible(p.probs, q.probs, p.probs * (softplus(-q.logits) - softplus(-p.logits)));
  const Tensor p_not = 1 - p.probs, q_not = 1 - q.probs;
  return one + where_possible(p_not, q_not, p_not * (softplus(q.logits) - softplus(p.logits)));
}
Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  return where_possible(p.probs, q.probs, p.probs * (p.logits - q.logits)).sum(-1);
}
Tensor kl_divergence(const OneHotCategorical& p, const OneHotCategorical& q) { return kl_divergence(p.base, q.base); }
Tensor kl_divergence(const Poisson& p, const Poisson& q) {
  return xlogy(p.rate, p.rate) - xlogy(p.rate, q.rate) - (p.rate - q.rate);
}
Tensor kl_divergence(const Geometric& p, const Geometric& q) {
  return -p.entropy() + softplus(q.logits) / p.probs - q.logits;
}
Tensor kl_divergence(const Binomial& p, const Binomial& q) {
  const Tensor fewer = p.total_count < q.total_count;
  check_range("kl_divergence", "p must not count fewer trials than q", logical_not(fewer));
  const Tensor one = kl_divergence(Bernoulli({.logits = p.logits}), Bernoulli({.logits = q.logits}));
  const Tensor kl = where(p.total_count > q.total_count, Tensor(HUGE_VAL), p.total_count * one);
  return where(fewer, Tensor(NAN), kl);
}

namespace {
// diag(d) x
Tensor scaled_rows(const Tensor& d, const Tensor& x) { return d.unsqueeze(-1) * x; }
Tensor sum_of_squares(const Tensor& x) { return square(x).sum({-2, -1}); }
// root^-1 x, for batches that broadcast
Tensor solve_lower(const Tensor& root, const Tensor& x) {
  Dims batch = broadcast(select(select(root, -1, 0), -1, 0).sizes(), select(select(x, -1, 0), -1, 0).sizes());
  return solve_triangular(expand(root, extended(batch, Dims{root.size(-2), root.size(-1)})),
                          expand(x, extended(batch, Dims{x.size(-2), x.size(-1)})), false);
}
double size_of_event(const Tensor& loc) { return static_cast<double>(loc.size(-1)); }
}  // namespace
Tensor kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q) {
  const Tensor trace = sum_of_squares(solve_lower(q.scale_tril, p.scale_tril));
  return half_log_det(q.scale_tril) - half_log_det(p.scale_tril) +
         0.5 * (trace + mahalanobis(q, p.loc) - size_of_event(p.loc));
}
Tensor kl_divergence(const LowRankMultivariateNormal& p, const MultivariateNormal& q) {
  const Tensor trace = sum_of_squares(solve_lower(q.scale_tril, p.cov_factor)) +
                       sum_of_squares(solve_lower(q.scale_tril, diag_embed(sqrt(p.cov_diag))));
  return half_log_det(q.scale_tril) - 0.5 * log_det(p) + 0.5 * (trace + mahalanobis(q, p.loc) - size_of_event(p.loc));
}
Tensor kl_divergence(const MultivariateNormal& p, const LowRankMultivariateNormal& q) {
  const Tensor trace = sum_of_squares(scaled_rows(rsqrt(q.cov_diag), p.scale_tril)) -
                       sum_of_squares(matmul(low_rank_root(q), p.scale_tril));
  return 0.5 * (log_det(q) + trace + mahalanobis(q, p.loc) - size_of_event(p.loc)) - half_log_det(p.scale_tril);
}
Tensor kl_divergence(const LowRankMultivariateNormal& p, const LowRankMultivariateNormal& q) {
  const Tensor root = low_rank_root(q);
  const Tensor trace =
      (p.cov_diag / q.cov_diag).sum(-1) + sum_of_squares(scaled_rows(rsqrt(q.cov_diag), p.cov_factor)) -
      sum_of_squares(root * sqrt(p.cov_diag).unsqueeze(-2)) - sum_of_squares(matmul(root, p.cov_factor));
  return 0.5 * (log_det(q) - log_det(p) + trace + mahalanobis(q, p.loc) - size_of_event(p.loc));
}
Tensor kl_divergence(const LogisticNormal& p, const LogisticNormal& q) { return kl_divergence(p.base, q.base).sum(-1); }

// --- different families: -E_p[log q] minus p's entropy ---
namespace detail {
Tensor log_normal(const Tensor& mean, const Tensor& variance, const Normal& q) {
  return -0.5 * (variance + square(mean - q.loc)) / square(q.scale) - log(q.scale) - 0.5 * std::log(2 * pi);
}
Tensor log_exponential(const Tensor& mean, const Exponential& q) { return log(q.rate) - q.rate * mean; }
Tensor log_gamma(const Tensor& mean, const Tensor& mean_log, const Gamma& q) {
  return q.concentration * log(q.rate) - lgamma(q.concentration) + (q.concentration - 1) * mean_log - q.rate * mean;
}
Tensor log_gumbel(const Tensor& mean, const Tensor& mean_exp, const Gumbel& q) {
  return (q.loc - mean) / q.scale - exp(q.loc / q.scale) * mean_exp - log(q.scale);
}
Tensor mean_log(const Beta& p) { return digamma(p.concentration1) - digamma(p.concentration1 + p.concentration0); }
Tensor mean_log(const Exponential& p) { return -euler - log(p.rate); }
Tensor mean_log(const Pareto& p) { return log(p.scale) + reciprocal(p.alpha); }
Tensor mean_log(const Uniform& p) { return (xlogy(p.high, p.high) - xlogy(p.low, p.low)) / (p.high - p.low) - 1; }
Tensor mean_exp(const Exponential& p, const Tensor& t) { return p.rate / (p.rate + t); }
Tensor mean_exp(const Gamma& p, const Tensor& t) { return exp(-p.concentration * log1p(t / p.rate)); }
Tensor mean_exp(const Normal& p, const Tensor& t) { return exp(0.5 * square(t * p.scale) - t * p.loc); }
Tensor mean_exp(const Uniform& p, const Tensor& t) {
  return exp(-t * p.low) * -expm1(t * (p.low - p.high)) / (t * (p.high - p.low));
}
Tensor within(const Uniform& p, double low, double high, Tensor kl) {
  return where(logical_or(p.low<low, p.high> high), Tensor(HUGE_VAL), kl);
}
}  // namespace detail

Tensor kl_divergence(const Normal& p, const Laplace& q) {
  const Tensor shift = (p.loc - q.loc) / p.scale;  // |x - q.loc| has the mean of a folded normal
  const Tensor distance =
      p.scale * (std::sqrt(2 / pi) * exp(-0.5 * square(shift)) + shift * erf(shift * std::sqrt(0.5)));
  return -p.entropy() + log(2 * q.scale) + distance / q.scale;
}
Tensor kl_divergence(const Uniform& p, const Beta& q) {
  const Tensor mean_rest = mean_log(Uniform(1 - p.high, 1 - p.low));  // of log(1 - x)
  const Tensor logs = (q.concentration1 - 1) * mean_log(p) + (q.concentration0 - 1) * mean_rest -
                      log_beta(q.concentration1, q.concentration0);
  return within(p, 0, 1, -p.entropy() - logs);
}
Tensor kl_divergence(const Uniform& p, const Pareto& q) {
  const Tensor logs = log(q.alpha) + q.alpha * log(q.scale) - (q.alpha + 1) * mean_log(p);
  return where(p.low < q.scale, Tensor(HUGE_VAL), -p.entropy() - logs);
}
Tensor kl_divergence(const Bernoulli& p, const Poisson& q) { return -p.entropy() - xlogy(p.probs, q.rate) + q.rate; }

}  // namespace mantissa::distributions
