// Discrete distributions: poisson and binomial. Composed of uniform random numbers and whole-tensor operators, so they
// run on any device: each round draws for all elements and keeps the accepted values, until every element has one. Read
// first: ops/random.cpp.
#include <cmath>

#include "autograd/grad_mode.h"
#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "core/random.h"
#include "core/recording.h"
#include "ops/compose.h"

namespace mantissa {
namespace {

Tensor uniform_like(const Tensor& x) { return rand(x.sizes(), {.dtype = f64, .device = x.device()}); }
bool any_of(const Tensor& x) { return any(x).item<bool>(); }

// Counts how many consecutive waiting times, drawn by wait(), fit into `time`.
template <class Wait> Tensor arrivals(const Tensor& time, const Wait& wait) {
  Tensor count = zeros_like(time), now = zeros_like(time);
  for (;;) {
    now = now + wait();
    const Tensor in_time = le(now, time);
    if (!any_of(in_time)) return count;
    count = count + cast(in_time, f64);
  }
}

// Transformed rejection with squeeze (Hoermann, 1993): a candidate k from two uniform numbers is accepted at once
// inside the squeeze, otherwise if log_hat, the logarithm of v times the hat's height, is at most the log density.
struct Hat {
  Tensor a, b, centre, squeeze, log_scale;
};
template <class LogDensity>
Tensor by_rejection(const Tensor& shape, const Hat& h, const Tensor& most, const LogDensity& log_density) {
  Tensor result = zeros_like(shape), open = ones_like(shape) > 0.0;
  while (any_of(open)) {
    const Tensor u = uniform_like(shape) - 0.5, v = uniform_like(shape), edge = 0.5 - abs(u);
    const Tensor k = floor((2.0 * h.a / edge + h.b) * u + h.centre);
    const Tensor at_once = logical_and(edge >= 0.07, v <= h.squeeze), possible = logical_and(k >= 0.0, k <= most);
    const Tensor safe = where(possible, k, zeros_like(k));
    const Tensor log_hat = log(v) + h.log_scale - log(h.a / (edge * edge) + h.b);
    const Tensor good = logical_and(possible, logical_or(at_once, log_hat <= log_density(safe)));
    result = where(logical_and(open, good), k, result);
    open = logical_and(open, logical_not(good));
  }
  return result;
}

constexpr double few = 10;  // expected counts below this are counted event by event

Tensor poisson_few(const Tensor& rate) {
  return arrivals(rate, [&] { return -log1p(-uniform_like(rate)); });
}
Tensor poisson_many(const Tensor& rate) {
  const Tensor b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  const Hat hat{a, b, rate + 0.43, 0.9277 - 3.6224 / (b - 2.0), log(1.1239 + 1.1328 / (b - 3.4))};
  const Tensor log_rate = log(rate);
  return by_rejection(rate, hat, full_like(rate, HUGE_VAL),
                      [&](const Tensor& k) { return k * log_rate - rate - lgamma(k + 1.0); });
}

Tensor binomial_few(const Tensor& n, const Tensor& p) {  // geometric waiting times (Devroye, 1986)
  const Tensor log_miss = log1p(-p);
  return arrivals(n, [&] { return clamp_min(ceil(log1p(-uniform_like(n)) / log_miss), 1); });
}
Tensor binomial_many(const Tensor& n, const Tensor& p) {  // p <= 1 / 2
  const Tensor deviation = sqrt(n * p * (1.0 - p)), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const Hat hat{a, b, n * p + 0.5, 0.92 - 4.2 / b, log((2.83 + 5.1 / b) * deviation)};
  const Tensor odds = log(p / (1.0 - p)), mode = floor((n + 1.0) * p);
  const Tensor at_mode = lgamma(mode + 1.0) + lgamma(n - mode + 1.0);
  return by_rejection(n, hat, n, [&](const Tensor& k) {
    return at_mode - lgamma(k + 1.0) - lgamma(n - k + 1.0) + (k - mode) * odds;
  });
}

// few_way where `expected` is small, many_way elsewhere; each gets safe values where the other applies.
template <class Few, class Many> Tensor either(const Tensor& expected, const Few& few_way, const Many& many_way) {
  const Tensor small = expected < few;
  const bool any_small = any_of(small), any_large = any_of(logical_not(small));
  if (!any_large) return few_way(small);
  if (!any_small) return many_way(small);
  return where(small, few_way(small), many_way(small));
}

}  // namespace

Tensor poisson(const Tensor& rate) {
  check(rate.is_floating(), "poisson: needs rates of a floating dtype, got ", rate, "; convert with to(f32)");
  check_may_read("poisson", rate, "it checks the rates and draws until all are accepted");
  const NoGrad no_grad;
  const Tensor r = cast(rate.detach(), f64);
  check(all(logical_and(r >= 0.0, isfinite(r))).item<bool>(), "poisson: rate ", rate,
        " must be finite and not negative");
  const Tensor y = either(
      r, [&](const Tensor& small) { return poisson_few(where(small, r, zeros_like(r))); },
      [&](const Tensor& small) { return poisson_many(where(small, full_like(r, few), r)); });
  return cast(y, rate.dtype());
}

Tensor binomial(const Tensor& count, const Tensor& prob) {
  check(count.is_floating() && count.dtype() == prob.dtype(), "binomial: count and prob need one floating dtype, got ",
        count, " and ", prob);
  check_may_read("binomial", count, "it checks its inputs and draws until all are accepted");
  const NoGrad no_grad;
  const Dims sizes = broadcast(count.sizes(), prob.sizes());
  const Tensor n = expand(cast(count.detach(), f64), sizes), p = expand(cast(prob.detach(), f64), sizes);
  check(all(logical_and(logical_and(n >= 0.0, isfinite(n)), eq(n, floor(n)))).item<bool>(), "binomial: count ", count,
        " must hold whole numbers, not negative");
  check(all(logical_and(p >= 0.0, p <= 1.0)).item<bool>(), "binomial: prob ", prob, " holds values outside [0, 1]");
  const Tensor q = minimum(p, 1.0 - p);
  const Tensor y = either(
      n * q,
      [&](const Tensor& small) { return binomial_few(where(small, n, zeros_like(n)), where(small, q, zeros_like(q))); },
      [&](const Tensor& small) {
        return binomial_many(where(small, full_like(n, 4 * few), n), where(small, full_like(q, 0.5), q));
      });
  return cast(where(p > 0.5, n - y, y), count.dtype());
}

namespace {

// Random numbers have no reference; tests/cuda_random_counts_test.cpp checks distributions.
void poisson_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return cast(poisson(x[0]), i64); };
  for (const double most : {5.0, 50.0}) s.call({s.uniform({4, 5}, 0, most)}, f).exact_only = true;
  s.error_call({s.uniform({2}, -2, -1)}, f, "poisson: rate");
  s.error_call({s.integers({2}, 0, 2)}, f, "poisson: needs rates of a floating dtype");
}
void binomial_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return cast(binomial(x[0], x[1]), i64); };
  for (const double n : {9.0, 100.0})
    s.call({full({4, 5}, n, {.dtype = f64}), s.uniform({5}, 0, 1)}, f).exact_only = true;
  s.error_call({full({2}, 0.5, {.dtype = f64}), s.uniform({2}, 0, 1)}, f, "must hold whole numbers");
  s.error_call({full({2}, 5, {.dtype = f64}), s.uniform({2}, 2, 3)}, f, "holds values outside [0, 1]");
  s.error_call({s.integers({2}, 0, 2), s.uniform({2}, 0, 1)}, f, "need one floating dtype");
}
MANTISSA_COMPOSITE(poisson, poisson_samples, .differentiable = false, .random = true)
MANTISSA_COMPOSITE(binomial, binomial_samples, .differentiable = false, .random = true)

}  // namespace
}  // namespace mantissa
