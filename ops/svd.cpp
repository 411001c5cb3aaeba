// Singular values and vectors: svd, svdvals, pinv, lstsq, matrix_rank, by a kernel. Read first:
// ops/linalg_solve.cpp.
#include <algorithm>

#include "core/decompose.h"
#include "core/ops_matrix.h"
#include "core/profile.h"
#include "ops/floating.h"
#include "ops/function.h"
#include "ops/onnx_trace.h"
#include "ops/registry.h"
#include "ops/triangular.h"

namespace mantissa {
namespace {

using linalg::as_batch;
using linalg::batch_and;
using linalg::check_precise;

// Without a gradient, for a batch [B, m, n]. Without `vectors` u and vh are undefined.
SvdResult decompose(const char* name, const Tensor& a, bool vectors = true) {
  check_may_look(name, a);
  const ProfileRange range(ProfileKind::op, name, &a);
  const bool wide = a.size(1) < a.size(2);
  const Tensor columns = linalg::own_batch(wide ? transpose(a) : a);
  const std::int64_t batch = a.size(0), m = columns.size(1), n = columns.size(2);
  const TensorOptions like{.dtype = a.dtype(), .device = a.device()};
  const Tensor values = empty({batch, n}, {.dtype = f64, .device = a.device()});
  const Tensor good = empty({batch}, {.dtype = boolean, .device = a.device()});
  Tensor u_t, v_t;
  if (vectors) u_t = empty({batch, n, m}, like), v_t = empty({batch, n, n}, like);
  kernels::dense_svd(a.device(), columns.view(), values.view(), vectors ? u_t.view() : View{},
                     vectors ? v_t.view() : View{}, good.view());
  linalg::check_converged(name, a, good);
  const Tensor s = values.to(a.dtype());
  if (!vectors) return {Tensor(), s, Tensor()};
  return wide ? SvdResult{transpose(v_t), s, u_t} : SvdResult{transpose(u_t), s, v_t};
}
void check_matrices(const char* name, const Tensor& a) {
  check(a.dim() >= 2, name, ": needs matrices [..., m, n], got ", a);
}

// u, s and vh concatenated in one row per matrix, returned as a single result: [B, m k + k + k n].
struct Svd {
  static constexpr auto name = "svd";
  static constexpr Dtype cast_inputs = f32;
  static Tensor pack(const SvdResult& r) { return cat({flatten(r.u, 1), r.s, flatten(r.vh, 1)}, 1); }
  static SvdResult unpack(const Tensor& packed, std::int64_t m, std::int64_t n) {
    const std::int64_t k = std::min(m, n), batch = packed.size(0);
    return {reshape(slice(packed, 1, 0, m * k), {batch, m, k}), slice(packed, 1, m * k, m * k + k),
            reshape(slice(packed, 1, m * k + k), {batch, k, n})};
  }
  Tensor forward(Saved& saved, const Tensor& a) const {
    check_precise(name, a);
    const Tensor y = pack(decompose(name, a));
    saved.save({a, y});
    return y;
  }
  // Townsend, "Differentiating the singular value decomposition", 2016.
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor a = saved[0];
    const std::int64_t m = a.size(1), n = a.size(2), k = std::min(m, n);
    const SvdResult r = unpack(grad_enabled() ? apply_function(Svd{}, a) : saved[1], m, n), d = unpack(g, m, n);
    const Tensor v = transpose(r.vh), gv = transpose(d.vh), squares = square(r.s);
    const Tensor gap = unsqueeze(squares, 1) - unsqueeze(squares, 2), same = gap == 0.0;
    const auto skewed = [&](const Tensor& x) {
      return where(same, zeros_like(gap), (x - transpose(x)) / where(same, ones_like(gap), gap));
    };
    const Tensor s_row = unsqueeze(r.s, 1), s_column = unsqueeze(r.s, 2);
    const Tensor inside =
        skewed(matmul(transpose(r.u), d.u)) * s_row + s_column * skewed(matmul(r.vh, gv)) + diag_embed(d.s);
    Tensor ga = matmul(matmul(r.u, inside), r.vh);
    if (m > k) ga = ga + matmul((d.u - matmul(r.u, matmul(transpose(r.u), d.u))) / s_row, r.vh);
    if (n > k) ga = ga + matmul(r.u, transpose((gv - matmul(v, matmul(r.vh, gv))) / s_row));
    return {ga};
  }
};
struct Svdvals {
  static constexpr auto name = "svdvals";
  static constexpr Dtype cast_inputs = f32;
  bool with_vectors = true;  // needed for a gradient
  Tensor forward(Saved& saved, const Tensor& a) const {
    check_precise(name, a);
    const SvdResult r = decompose(name, a, with_vectors);
    if (with_vectors) saved.save({a, r.u, r.vh});
    return r.s;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const bool again = grad_enabled();
    const SvdResult r = again ? svd(saved[0]) : SvdResult{saved[1], {}, saved[2]};
    return {matmul(r.u * unsqueeze(g, 1), r.vh)};
  }
};
// R^-1 Q^T for a = Q R, or the same for the transpose. Valid only for a matrix of certainly full rank: the product of
// the Frobenius norms of R and its inverse bounds the condition number. Undefined if one in the batch fails that test,
// and on a GPU, which would have to be waited for.
Tensor by_qr(const Tensor& a, double part) {
  if (!linalg::has_kernels(a) || !a.device().is_cpu() || a.numel() == 0) return {};
  const bool wide = a.size(1) < a.size(2);
  const QrResult f = qr(wide ? transpose(a) : a);
  const Tensor unit = expand(linalg::identity(a, f.r.size(1)), f.r.sizes());
  const Tensor inverse = linalg::substitute(f.r, unit, true);
  const Tensor condition = norm(f.r, 2, {1, 2}) * norm(inverse, 2, {1, 2});
  if (!all(condition * part < 1.0).item<bool>()) return {};  // also true for NaN
  const Tensor y = matmul(inverse, transpose(f.q));
  return wide ? contiguous(transpose(y)) : y;
}

struct Pinv {  // Golub and Pereyra, 1973
  static constexpr auto name = "pinv";
  static constexpr Dtype cast_inputs = f32;
  std::optional<double> rtol;
  Tensor inverse(const Tensor& a) const {
    const double part = rtol.value_or(epsilon_of(a.dtype()) * static_cast<double>(std::max(a.size(1), a.size(2))));
    if (const Tensor y = by_qr(a, part); y.defined()) return y;
    const SvdResult r = decompose(name, a);
    const Tensor kept = r.s > slice(r.s, 1, 0, 1) * part;
    const Tensor inverted = where(kept, 1.0 / where(kept, r.s, ones_like(r.s)), zeros_like(r.s));
    return matmul(transpose(r.vh) * unsqueeze(inverted, 1), transpose(r.u));
  }
  Tensor forward(Saved& saved, const Tensor& a) const {
    check_precise(name, a);
    const Tensor y = inverse(a.detach());
    saved.save({a, y});
    return y;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor a = saved[0], p = grad_enabled() ? pinv(a, rtol) : saved[1], pt = transpose(p), gt = transpose(g);
    return {matmul(matmul(gt - matmul(a, matmul(p, gt)), p), pt) +
            matmul(pt, matmul(p, gt - matmul(matmul(gt, p), a))) - matmul(matmul(pt, g), pt)};
  }
};

// --- samples. Only results that do not depend on the vectors' arbitrary signs are compared. ---
void svd_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const SvdResult r = svd(x[0]);
    return Tensors{matmul(r.u * unsqueeze(exp(r.s * 0.5), -2), r.vh), square(r.u), r.s};
  };
  for (const Dims& sizes : {Dims{4, 3}, Dims{2, 3, 3}, Dims{2, 5}}) s.call({s.randn(sizes)}, f);
  s.error_call({s.randn({3})}, f, "svd: needs matrices");
}
void svdvals_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return svdvals(x[0]); };
  for (const Dims& sizes : {Dims{4, 3}, Dims{2, 2, 4}}) s.call({s.randn(sizes)}, f);
  s.error_call({s.randn({3})}, f, "svdvals: needs matrices");
}
void pinv_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return pinv(x[0]); };
  for (const Dims& sizes : {Dims{4, 2}, Dims{2, 2, 5}}) s.call({s.randn(sizes)}, f);
  s.error_call({s.randn({3})}, f, "pinv: needs matrices");
}
void lstsq_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return lstsq(x[0], x[1]); };
  s.call({s.randn({4, 2}), s.randn({4, 3})}, f);
  s.call({s.randn({2, 2, 5}), s.randn({2, 1})}, f);
  s.call({s.randn({2, 4, 2}), s.randn({2, 4})}, f);
  s.error_call({s.randn({4, 2}), s.randn({2, 3})}, f, "lstsq: b must have 4 rows");
}
void matrix_rank_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return matrix_rank(matmul(x[0], x[1])); };
  s.call({s.randn({2, 4, 2}), s.randn({2, 5})}, f);
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return matrix_rank(x[0]); }, "matrix_rank: needs matrices");
}
MANTISSA_COMPOSITE(svd, svd_samples, .halves = false)
MANTISSA_COMPOSITE(svdvals, svdvals_samples, .halves = false)
MANTISSA_COMPOSITE(pinv, pinv_samples, .halves = false)
MANTISSA_COMPOSITE(lstsq, lstsq_samples, .halves = false)
MANTISSA_COMPOSITE(matrix_rank, matrix_rank_samples, .differentiable = false, .halves = false)

}  // namespace

SvdResult svd(const Tensor& a) {
  check_matrices("svd", a);
  const std::int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const SvdResult r = Svd::unpack(apply_function(Svd{}, as_batch(a)), m, n);
  return {reshape(r.u, batch_and(a, {m, k})), reshape(r.s, batch_and(a, {k})), reshape(r.vh, batch_and(a, {k, n}))};
}
Tensor svdvals(const Tensor& a) {
  check_matrices("svdvals", a);
  const Svdvals op{a.requires_grad() && grad_enabled()};
  return reshape(apply_function(op, as_batch(a)), batch_and(a, {std::min(a.size(-2), a.size(-1))}));
}
Tensor pinv(const Tensor& a, std::optional<double> rtol) {
  check_matrices("pinv", a);
  return reshape(apply_function(Pinv{rtol}, as_batch(a)), batch_and(a, {a.size(-1), a.size(-2)}));
}
Tensor lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond) {
  check_matrices("lstsq", a);
  const bool vectors = b.dim() == 1 || b.sizes() == batch_and(a, {a.size(-2)});
  const Tensor right = vectors ? unsqueeze(b, -1) : b;
  check(right.dim() >= 2 && right.size(-2) == a.size(-2), "lstsq: b must have ", a.size(-2), " rows for a of shape ",
        a.sizes(), ", got ", b);
  const Tensor x = matmul(pinv(a, rcond), right);
  return vectors ? squeeze(x, -1) : x;
}
Tensor matrix_rank(const Tensor& a, std::optional<double> rtol) {
  check_matrices("matrix_rank", a);
  const Tensor s = svdvals(a.detach());
  const double part = rtol.value_or(epsilon_of(a.dtype()) * static_cast<double>(std::max(a.size(-2), a.size(-1))));
  return sum(cast(s > slice(s, -1, 0, 1) * part, i64), {-1});
}

}  // namespace mantissa
