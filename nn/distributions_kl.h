// Kullback-Leibler divergences: kl_divergence(p, q) is the expectation under p of log p - log q, in nats, over the
// broadcast batch of p and q. Defined for pairs of the same family and for mixed pairs that are not always infinite;
// where p's support always exceeds q's there is no overload. Read nn/distributions.h first.
#pragma once

#include <concepts>

#include "nn/distributions_combined.h"
#include "nn/distributions_interval.h"
#include "nn/distributions_location.h"
#include "nn/distributions_normal.h"
#include "nn/distributions_positive.h"
#include "nn/distributions_transformed.h"

namespace mantissa::distributions {

// --- same family ---
Tensor kl_divergence(const Normal& p, const Normal& q);
Tensor kl_divergence(const LogNormal& p, const LogNormal& q);
Tensor kl_divergence(const HalfNormal& p, const HalfNormal& q);
Tensor kl_divergence(const Laplace& p, const Laplace& q);
Tensor kl_divergence(const Cauchy& p, const Cauchy& q);
Tensor kl_divergence(const Gumbel& p, const Gumbel& q);
Tensor kl_divergence(const Uniform& p, const Uniform& q);  // infinite where p's support exceeds q's
Tensor kl_divergence(const ContinuousBernoulli& p, const ContinuousBernoulli& q);
Tensor kl_divergence(const Exponential& p, const Exponential& q);
Tensor kl_divergence(const Pareto& p, const Pareto& q);  // infinite where p.scale < q.scale
Tensor kl_divergence(const Gamma& p, const Gamma& q);
Tensor kl_divergence(const InverseGamma& p, const InverseGamma& q);
Tensor kl_divergence(const Beta& p, const Beta& q);
Tensor kl_divergence(const Dirichlet& p, const Dirichlet& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Categorical& p, const Categorical& q);  // infinite where q is 0 and p is not
Tensor kl_divergence(const OneHotCategorical& p, const OneHotCategorical& q);
Tensor kl_divergence(const Poisson& p, const Poisson& q);
Tensor kl_divergence(const Geometric& p, const Geometric& q);
// Infinite where p has more trials than q. There is no formula for fewer: an error on the CPU, NaN on a GPU.
Tensor kl_divergence(const Binomial& p, const Binomial& q);
Tensor kl_divergence(const MultivariateNormal& p, const MultivariateNormal& q);
Tensor kl_divergence(const LowRankMultivariateNormal& p, const LowRankMultivariateNormal& q);
Tensor kl_divergence(const LogisticNormal& p, const LogisticNormal& q);
template <class D> Tensor kl_divergence(const Independent<D>& p, const Independent<D>& q) {
  check(p.dims == q.dims, "kl_divergence: events of ", p.dims, " and of ", q.dims, " dimensions");
  return p.sum_events(kl_divergence(p.base, q.base));
}

// --- different families ---
Tensor kl_divergence(const Normal& p, const Laplace& q);
Tensor kl_divergence(const Uniform& p, const Beta& q);
Tensor kl_divergence(const Uniform& p, const Pareto& q);
Tensor kl_divergence(const Bernoulli& p, const Poisson& q);
Tensor kl_divergence(const MultivariateNormal& p, const LowRankMultivariateNormal& q);
Tensor kl_divergence(const LowRankMultivariateNormal& p, const MultivariateNormal& q);

namespace detail {
template <class P, class... D>
concept OneOf = (std::derived_from<P, D> || ...);
// Expectations of log q under a p with the given mean, variance, mean of the log and mean of exp(-x / q.scale).
Tensor log_normal(const Tensor& mean, const Tensor& variance, const Normal& q);
Tensor log_exponential(const Tensor& mean, const Exponential& q);
Tensor log_gamma(const Tensor& mean, const Tensor& mean_log, const Gamma& q);
Tensor log_gumbel(const Tensor& mean, const Tensor& mean_exp, const Gumbel& q);
Tensor mean_log(const Beta& p);
Tensor mean_log(const Exponential& p);
Tensor mean_log(const Pareto& p);
Tensor mean_log(const Uniform& p);
Tensor mean_exp(const Exponential& p, const Tensor& t);  // of exp(-t x)
Tensor mean_exp(const Gamma& p, const Tensor& t);
Tensor mean_exp(const Normal& p, const Tensor& t);
Tensor mean_exp(const Uniform& p, const Tensor& t);
// Infinite where p's support exceeds [low, high].
template <class P> Tensor within(const P&, double, double, Tensor kl) { return kl; }
Tensor within(const Uniform& p, double low, double high, Tensor kl);
}  // namespace detail

template <detail::OneOf<Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform> P>
Tensor kl_divergence(const P& p, const Normal& q) {
  return -p.entropy() - detail::log_normal(p.mean(), p.variance(), q);
}
template <detail::OneOf<Beta, ContinuousBernoulli, Gamma, Pareto, Uniform> P>
Tensor kl_divergence(const P& p, const Exponential& q) {
  return detail::within(p, 0, HUGE_VAL, -p.entropy() - detail::log_exponential(p.mean(), q));
}
template <detail::OneOf<Beta, Exponential, Pareto, Uniform> P> Tensor kl_divergence(const P& p, const Gamma& q) {
  return detail::within(p, 0, HUGE_VAL, -p.entropy() - detail::log_gamma(p.mean(), detail::mean_log(p), q));
}
template <detail::OneOf<Exponential, Gamma, Normal, Uniform> P> Tensor kl_divergence(const P& p, const Gumbel& q) {
  return -p.entropy() - detail::log_gumbel(p.mean(), detail::mean_exp(p, reciprocal(q.scale)), q);
}
template <detail::OneOf<Beta, ContinuousBernoulli> P>
Tensor kl_divergence(const P& p, const Uniform& q) {  // infinite where q's support does not contain [0, 1]
  return where(logical_or(q.low > 0, q.high < 1), Tensor(HUGE_VAL), -p.entropy() + q.entropy());
}
template <detail::OneOf<Beta, Uniform> P> Tensor kl_divergence(const P& p, const ContinuousBernoulli& q) {
  return detail::within(p, 0, 1, -p.entropy() - q.log_prob(p.mean()));  // log q is linear in x
}

}  // namespace mantissa::distributions
