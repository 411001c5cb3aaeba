// Functions based on singular values and random projections: polar, svd_lowrank, pca_lowrank. The latter two follow
// Halko, Martinsson and Tropp, "Finding structure with randomness", 2011, algorithms 4.4 and 5.1. Read first:
// ops/svd.cpp.
#include <algorithm>

#include "core/ops_matrix.h"
#include "core/random.h"
#include "ops/compose.h"
#include "ops/registry.h"
#include "ops/triangular.h"

namespace mantissa {
namespace {

// Orthonormal columns [..., m, q] that nearly span the range of a [..., m, n]: a times random directions, brought
// closer to the largest singular vectors by power iterations with a and its transpose.
Tensor range_of(const Tensor& a, std::int64_t q, int iterations) {
  const TensorOptions options{.dtype = a.dtype(), .device = a.device()};
  Tensor basis = qr(matmul(a, randn({a.size(-1), q}, options))).q;
  for (int i = 0; i < iterations; ++i) {
    basis = qr(matmul(transpose(a), basis)).q;
    basis = qr(matmul(a, basis)).q;
  }
  return basis;
}
LowRankResult low_rank(const Tensor& a, std::int64_t q, int iterations) {
  if (a.size(-2) < a.size(-1)) {
    const LowRankResult r = low_rank(transpose(a), q, iterations);
    return {r.v, r.s, r.u};
  }
  const Tensor basis = range_of(a, q, iterations);
  const SvdResult r = svd(matmul(transpose(basis), a));
  return {matmul(basis, r.u), r.s, transpose(r.vh)};
}
void check_low_rank(const char* name, const Tensor& a, std::int64_t q, int iterations) {
  check(a.dim() >= 2, name, ": needs matrices [..., m, n], got ", a);
  linalg::check_precise(name, a);
  check(q >= 0, name, ": q must not be negative, got ", q);
  check(iterations >= 0, name, ": iterations must not be negative, got ", iterations);
}

// --- samples: matrices of rank q, for which the results do not depend on the random directions ---
void polar_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const PolarResult r = polar(x[0]);
    return Tensors{r.u, r.h};
  };
  for (const Dims& sizes : {Dims{4, 3}, Dims{2, 3, 3}, Dims{1, 1}}) s.call({s.randn(sizes)}, f);
  s.error_call({s.randn({3})}, f, "polar: needs matrices");
  s.error_call({s.randn({2, 3})}, f, "polar: needs matrices [..., m, n] with m >= n");
}
void svd_lowrank_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    manual_seed(5);
    return svd_lowrank(matmul(x[0], x[1]), 2).s;
  };
  s.call({s.randn({5, 2}), s.randn({2, 4})}, f);
  s.call({s.randn({2, 3, 2}), s.randn({2, 6})}, f);
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return svd_lowrank(x[0]).s; }, "svd_lowrank: needs matrices");
  s.error_call(
      {s.randn({3, 3})}, [](const Tensors& x) { return svd_lowrank(x[0], -1).s; }, "q must not be negative");
}
void pca_lowrank_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    manual_seed(5);
    return pca_lowrank(matmul(x[0], x[1]), 2).s;
  };
  s.call({s.randn({5, 2}), s.randn({2, 4})}, f);
  s.error_call(
      {s.randn({3, 2})}, [](const Tensors& x) { return pca_lowrank(x[0], 3).s; }, "pca_lowrank: q must be at most 2");
}
MANTISSA_COMPOSITE(polar, polar_samples, .halves = false)
MANTISSA_COMPOSITE(svd_lowrank, svd_lowrank_samples, .autocast = CastPolicy::f32, .has_policy = true, .halves = false)
MANTISSA_COMPOSITE(pca_lowrank, pca_lowrank_samples, .autocast = CastPolicy::f32, .has_policy = true, .halves = false)

}  // namespace

PolarResult polar(const Tensor& a) {
  check(a.dim() >= 2 && a.size(-2) >= a.size(-1), "polar: needs matrices [..., m, n] with m >= n, got ", a);
  const Composite in("polar", CastPolicy::f32, {&a});
  const SvdResult r = svd(in[0]);
  return {in.result(matmul(r.u, r.vh)), matmul(transpose(r.vh) * unsqueeze(r.s, -2), r.vh)};
}
LowRankResult svd_lowrank(const Tensor& a, std::int64_t q, int iterations) {
  const Composite in("svd_lowrank", CastPolicy::f32, {&a});
  check_low_rank("svd_lowrank", in[0], q, iterations);
  LowRankResult r = low_rank(in[0], std::min({q, a.size(-2), a.size(-1)}), iterations);
  r.s = in.result(r.s);
  return r;
}
LowRankResult pca_lowrank(const Tensor& a, std::optional<std::int64_t> q, bool center, int iterations) {
  const Composite in("pca_lowrank", CastPolicy::f32, {&a});
  check_low_rank("pca_lowrank", in[0], q.value_or(0), iterations);
  const std::int64_t most = std::min(a.size(-2), a.size(-1)), columns = q.value_or(std::min<std::int64_t>(6, most));
  check(columns <= most, "pca_lowrank: q must be at most ", most, " for ", a, ", got ", columns);
  LowRankResult r = low_rank(center ? in[0] - mean(in[0], {-2}, true) : in[0], columns, iterations);
  r.s = in.result(r.s);
  return r;
}

}  // namespace mantissa
