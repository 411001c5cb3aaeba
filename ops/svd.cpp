// Singular values and vectors: svd, svdvals, pinv, lstsq, matrix_rank. A kernel on the CPU. On other devices one-sided
// Jacobi rotations (Hestenes, 1958; Golub and Van Loan, Matrix Computations, 8.6), composed of operators on whole
// batches, n / 2 disjoint column pairs at once: for matrices of some dozens of columns. Read first:
// ops/linalg_solve.cpp.
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/decompose.h"
#include "core/ops_matrix.h"
#include "core/profile.h"
#include "core/recording.h"
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

TensorOptions options_of(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }

// In each round columns i and half + i are paired. Returns the column order of the next round: column 0 stays and the
// others rotate, so that all pairs meet once in 2 half - 1 rounds (a round-robin tournament).
Tensor next_places(std::int64_t half, Device device) {
  std::vector<std::int64_t> from;
  for (std::int64_t i = 0; i < half; ++i) from.push_back(i == 0 ? 0 : i == 1 ? half : i - 1);
  for (std::int64_t i = 0; i < half; ++i) from.push_back(i + 1 < half ? half + i + 1 : half - 1);
  if (half == 1) from = {0, 1};
  return from_data<std::int64_t>(from, {2 * half}).to(device);
}

struct Columns {
  Tensor u, s, v;
};  // [B, m, n], [B, n] descending, [B, n, n] for a [B, m, n] with m >= n

Columns jacobi(const char* name, const Tensor& a) {
  check_may_look(name, a);
  const std::int64_t batch = a.size(0), m = a.size(1), n = a.size(2), half = (n + 1) / 2, width = 2 * half;
  const double tolerance = epsilon_of(a.dtype()) * std::sqrt(static_cast<double>(std::max<std::int64_t>(m, 1)));
  // a stacked on the identity: rotations of a's columns are applied to those of v too. An odd n gets a column of zeros.
  Tensor all = cat({width > n ? cat({a, zeros({batch, m, 1}, options_of(a))}, 2) : a,
                    expand(linalg::identity(a, width), {batch, width, width})},
                   1);
  const Tensor places = half > 0 ? next_places(half, a.device()) : Tensor();
  const Tensor negligible = sum(square(a), {1, 2}, true) * (tolerance * tolerance);
  bool turned = n > 1 && a.numel() > 0;
  for (int sweep = 0; turned; ++sweep) {
    check(sweep < 60, name, ": the rotations do not converge for ", a);
    Tensor worst = zeros({}, options_of(a));
    for (std::int64_t round = 0; round + 1 < width; ++round) {
      const Tensor p = slice(all, 2, 0, half), q = slice(all, 2, half), top_p = slice(p, 1, 0, m),
                   top_q = slice(q, 1, 0, m);
      const Tensor pp = sum(square(top_p), {1}, true), qq = sum(square(top_q), {1}, true),
                   pq = sum(top_p * top_q, {1}, true);
      // Columns that are only rounding errors never become orthogonal to the others: skip them.
      const Tensor size = sqrt(pp) * sqrt(qq), noise = minimum(pp, qq) <= negligible;
      const Tensor cosine = where(noise, zeros_like(pq), abs(pq) / where(noise, ones_like(size), size));
      const Tensor turns = cosine > tolerance, divisor = where(turns, 2.0 * pq, ones_like(pq));
      const Tensor zeta = (qq - pp) / divisor, sign_of = where(zeta < 0.0, full_like(zeta, -1), ones_like(zeta));
      const Tensor t = where(turns, sign_of / (abs(zeta) + hypot(zeta, ones_like(zeta))), zeros_like(zeta));
      const Tensor c = rsqrt(1.0 + square(t)), s = c * t;
      worst = maximum(worst, max(cosine));
      all = index_select(cat({c * p - s * q, s * p + c * q}, 2), 2, places);
    }
    turned = (worst > (sweep < 10 ? tolerance : 10 * tolerance)).item<bool>();  // rounding may keep the last bit moving
  }
  Tensor w = slice(all, 1, 0, m), v = slice(all, 1, m);
  Tensor s = norm(w, 2, {1});
  // The padding column is the only one with a nonzero last row of v; it is sorted last and then removed.
  const Tensor key = width > n ? where(select(v, 1, n) == 0.0, s, full_like(s, -1)) : s;
  const Tensor order = argsort(-key, 1), by_column = expand(unsqueeze(order, 1), {batch, m, width});
  w = slice(gather(w, 2, by_column), 2, 0, n);
  v = slice(slice(gather(v, 2, expand(unsqueeze(order, 1), {batch, width, width})), 2, 0, n), 1, 0, n);
  s = slice(gather(s, 1, order), 1, 0, n);
  const Tensor divisor = unsqueeze(where(s == 0.0, ones_like(s), s), 1);
  return {contiguous(w / divisor), contiguous(s), contiguous(v)};
}
// The same by the CPU kernel. Without `vectors` u and vh are undefined.
SvdResult by_kernel(const char* name, const Tensor& a, bool vectors) {
  const ProfileRange range(ProfileKind::op, name, &a);
  const bool wide = a.size(1) < a.size(2);
  const Tensor columns = linalg::own_batch(wide ? transpose(a) : a);
  const std::int64_t batch = a.size(0), m = columns.size(1), n = columns.size(2);
  const Tensor values = empty({batch, n}, {.dtype = f64});
  Tensor u_t, v_t;
  if (vectors) u_t = empty({batch, n, m}, options_of(a)), v_t = empty({batch, n, n}, options_of(a));
  const auto good = std::make_unique<bool[]>(static_cast<std::size_t>(batch));
  kernels::dense_svd(cpu, columns.view(), values.view(), vectors ? u_t.view() : View{}, vectors ? v_t.view() : View{},
                     good.get());
  for (std::int64_t item = 0; item < batch; ++item)
    check(good[static_cast<std::size_t>(item)], name, ": the steps do not converge for matrix ", item, " of ", a);
  const Tensor s = values.to(a.dtype());
  if (!vectors) return {Tensor(), s, Tensor()};
  return wide ? SvdResult{transpose(v_t), s, u_t} : SvdResult{transpose(u_t), s, v_t};
}
// Without a gradient, for a batch [B, m, n].
SvdResult decompose(const char* name, const Tensor& a, bool vectors = true) {
  check_may_look(name, a);
  check_may_read(name, a, "it turns until nothing is left to turn");
  if (linalg::has_kernels(a)) return by_kernel(name, a, vectors);
  const bool wide = a.size(1) < a.size(2);
  const Columns c = jacobi(name, wide ? contiguous(transpose(a)) : a);
  return wide ? SvdResult{c.v, c.s, contiguous(transpose(c.u))} : SvdResult{c.u, c.s, contiguous(transpose(c.v))};
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
// the Frobenius norms of R and its inverse bounds the condition number. Undefined if one in the batch fails that test.
Tensor by_qr(const Tensor& a, double part) {
  if (!linalg::has_kernels(a) || a.numel() == 0) return {};
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
  Tensor forward(Saved& saved, const Tensor& a) const {
    check_precise(name, a);
    const double part = rtol.value_or(epsilon_of(a.dtype()) * static_cast<double>(std::max(a.size(1), a.size(2))));
    if (const Tensor y = by_qr(a, part); y.defined()) {
      saved.save({a, y});
      return y;
    }
    const SvdResult r = decompose(name, a);
    const Tensor kept = r.s > slice(r.s, 1, 0, 1) * part;
    const Tensor inverse = where(kept, 1.0 / where(kept, r.s, ones_like(r.s)), zeros_like(r.s));
    const Tensor y = matmul(transpose(r.vh) * unsqueeze(inverse, 1), transpose(r.u));
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
