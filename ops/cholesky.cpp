// Cholesky decomposition and the solvers that use it: cholesky, cholesky_solve, cholesky_inverse. A kernel; exported
// to ONNX composed of operators, column by column, on whole batches. Gradient: Murray, "Differentiation of the
// Cholesky decomposition", 2016. Read first: ops/linalg_solve.cpp.
#include "core/decompose.h"
#include "core/ops_matrix.h"
#include "core/profile.h"
#include "ops/check_values.h"
#include "ops/function.h"
#include "ops/onnx_trace.h"
#include "ops/registry.h"
#include "ops/triangular.h"

namespace mantissa {
namespace {

// L with L L^T = a, from the lower triangles of a [B, n, n]; NaN or infinite from the column on where a is not positive
// definite.
Tensor lower_factor(const Tensor& a) {
  const std::int64_t n = a.size(1);
  const Tensor factor = zeros_like(a);
  for (std::int64_t k = 0; k < n; ++k) {
    Tensor column = slice(slice(a, 1, k), 2, k, k + 1);  // [B, n - k, 1]
    const Tensor before = slice(slice(factor, 1, k), 2, 0, k);
    if (k > 0) column = column - matmul(before, transpose(slice(before, 1, 0, 1)));
    slice(slice(factor, 1, k), 2, k, k + 1).copy_(column / sqrt(slice(column, 1, 0, 1)));
  }
  return factor;
}

Tensor by_kernel(const Tensor& a) {
  const ProfileRange range(ProfileKind::op, "cholesky", &a);
  const Tensor factor = linalg::own_batch(a), wrong = empty({factor.size(0)}, {.dtype = i64, .device = a.device()});
  kernels::dense_cholesky(a.device(), factor.view(), wrong.view());
  if (a.device().is_cpu()) {
    for (std::int64_t item = 0; item < wrong.numel(); ++item) {
      const std::int64_t row = wrong.data<std::int64_t>()[item];
      if (row < 0) continue;
      const std::string which = a.dim() == 2 ? "the matrix" : concat("matrix ", item);
      fail("cholesky: ", which, " is not positive definite: ", a, ", from row ", row,
           "; add a small multiple of eye()");
    }
  } else {
    check_all("cholesky", wrong < 0.0,
              "the matrix, or one of them, is not positive definite; add a small multiple of eye()");
  }
  return factor;
}

struct Cholesky {
  static constexpr auto name = "cholesky";
  static constexpr Dtype cast_inputs = f32;
  Tensor forward(Saved& saved, const Tensor& a) const {
    linalg::check_precise(name, a);
    const Tensor factor = is_traced(a) ? lower_factor(linalg::as_batch(a)) : by_kernel(a);
    check(!is_traced(a) || all(diagonal(factor, 0, 1, 2) > 0.0).item<bool>(),
          "cholesky: the matrix, or one of them, is not positive definite: ", a, "; add a small multiple of eye()");
    const Tensor y = reshape(factor, a.sizes());
    saved.save({a, y});
    return y;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor l = grad_enabled() ? mantissa::cholesky(saved[0]) : saved[1], up = transpose(l);
    const Tensor p = matmul(up, tril(g)), half = tril(p) - 0.5 * diag_embed(diagonal(p, 0, -2, -1));
    const Tensor s =
        solve_triangular(up, transpose(solve_triangular(up, transpose(half), true)), true);  // l^-T half l^-1
    return {0.5 * (s + transpose(s))};
  }
};

Tensor positive(const Tensor& x) { return matmul(x, transpose(x)) + linalg::identity(x, x.size(-1)); }
void cholesky_samples(Samples& s) {
  s.call({s.randn({3, 3})}, [](const Tensors& x) { return cholesky(positive(x[0])); });
  s.call({s.randn({2, 4, 4})}, [](const Tensors& x) { return cholesky(positive(x[0]), true); });
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return cholesky(x[0]); }, "cholesky: needs square matrices");
  s.error_call(
      {s.randn({3, 3})}, [](const Tensors& x) { return cholesky(-positive(x[0])); }, "is not positive definite");
}
void cholesky_solve_samples(Samples& s) {
  for (const bool upper : {false, true}) {
    s.call({s.randn({3, 2}), s.randn({2, 3, 3})},
           [upper](const Tensors& x) { return cholesky_solve(x[0], cholesky(positive(x[1]), upper), upper); });
  }
  s.error_call(
      {s.randn({2, 1}), s.randn({3, 3})}, [](const Tensors& x) { return cholesky_solve(x[0], x[1]); },
      "b must have 3 rows");
}
void cholesky_inverse_samples(Samples& s) {
  for (const bool upper : {false, true}) {
    s.call({s.randn({2, 3, 3})},
           [upper](const Tensors& x) { return cholesky_inverse(cholesky(positive(x[0]), upper), upper); });
  }
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return cholesky_inverse(x[0]); },
      "cholesky_inverse: needs square matrices");
}
MANTISSA_COMPOSITE(cholesky, cholesky_samples, .halves = false)
MANTISSA_COMPOSITE(cholesky_solve, cholesky_solve_samples, .halves = false)
MANTISSA_COMPOSITE(cholesky_inverse, cholesky_inverse_samples, .halves = false)

}  // namespace

Tensor cholesky(const Tensor& a, bool upper) {
  linalg::check_square("cholesky", a);
  const Tensor l = apply_function(Cholesky{}, a);
  return upper ? transpose(l) : l;
}
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper) {
  const Tensor lower = upper ? transpose(factor) : factor;
  return solve_triangular(transpose(lower), solve_triangular(lower, b, false), true);
}
Tensor cholesky_inverse(const Tensor& factor, bool upper) {
  linalg::check_square("cholesky_inverse", factor);
  return cholesky_solve(linalg::identity(factor, factor.size(-1)), factor, upper);
}

}  // namespace mantissa
