// Discrete distributions: poisson and binomial. The numbers are drawn by core/variates.h. Read first: ops/random.cpp.
#include "autograd/grad_mode.h"
#include "core/ops_numeric.h"
#include "core/variates.h"
#include "ops/compose.h"
#include "ops/named.h"

namespace mantissa {

Tensor poisson(const Tensor& rate) {
  check(rate.is_floating(), "poisson: needs rates of a floating dtype, got ", rate, "; convert with to(f32)");
  const NoGrad no_grad;
  const Tensor r = rate.detach();
  named_check_all("poisson", rate, logical_and(r >= 0.0, isfinite(r)), "rates must be finite and not negative");
  return cast(draw_variates(Variate::poisson, r), rate.dtype());
}

Tensor binomial(const Tensor& count, const Tensor& prob) {
  check(count.is_floating() && count.dtype() == prob.dtype(), "binomial: count and prob need one floating dtype, got ",
        count, " and ", prob);
  const NoGrad no_grad;
  const Dims sizes = broadcast(count.sizes(), prob.sizes());
  const Tensor n = count.detach(), p = prob.detach();
  named_check_all("binomial", count, logical_and(logical_and(n >= 0.0, isfinite(n)), eq(n, floor(n))),
                  "counts must be whole numbers, not negative");
  named_check_all("binomial", prob, logical_and(p >= 0.0, p <= 1.0), "prob holds values outside [0, 1]");
  return cast(draw_variates(Variate::binomial, expand(n, sizes), expand(p, sizes)), count.dtype());
}

namespace {

// Random numbers have no reference; tests/cuda_random_counts_test.cpp checks distributions.
void poisson_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return cast(poisson(x[0]), i64); };
  for (const double most : {5.0, 50.0}) s.call({s.uniform({4, 5}, 0, most)}, f).exact_only = true;
  s.error_call({s.uniform({2}, -2, -1)}, f, "rates must be finite and not negative");
  s.error_call({s.integers({2}, 0, 2)}, f, "poisson: needs rates of a floating dtype");
}
void binomial_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return cast(binomial(x[0], x[1]), i64); };
  for (const double n : {9.0, 100.0})
    s.call({full({4, 5}, n, {.dtype = f64}), s.uniform({5}, 0, 1)}, f).exact_only = true;
  s.error_call({full({2}, 0.5, {.dtype = f64}), s.uniform({2}, 0, 1)}, f, "counts must be whole numbers");
  s.error_call({full({2}, 5, {.dtype = f64}), s.uniform({2}, 2, 3)}, f, "holds values outside [0, 1]");
  s.error_call({s.integers({2}, 0, 2), s.uniform({2}, 0, 1)}, f, "need one floating dtype");
}
MANTISSA_COMPOSITE(poisson, poisson_samples, .differentiable = false, .random = true)
MANTISSA_COMPOSITE(binomial, binomial_samples, .differentiable = false, .random = true)

}  // namespace
}  // namespace mantissa
