// QR decomposition by Householder reflections (Golub and Van Loan, Matrix Computations, 5.2): qr, householder_product.
// Kernels, or for ONNX and for gradients of householder_product a few operators per column of a whole batch. Signs are
// LAPACK's. Read first: ops/linalg_solve.cpp.
#include <algorithm>

#include "core/decompose.h"
#include "core/ops_matrix.h"
#include "core/profile.h"
#include "ops/function.h"
#include "ops/registry.h"
#include "ops/triangular.h"

namespace mantissa {
namespace {

using linalg::batch_and;
using linalg::identity;

// a [B, m, n] after the reflections: R in the upper triangle, below it the reflection vectors without their leading 1.
// tau [B, count] holds their factors: H = 1 - tau v v^T. (LAPACK's geqrf.)
struct Reflections {
  Tensor packed, tau;
};
Reflections reflect(const Tensor& a) {
  const std::int64_t m = a.size(1), n = a.size(2), count = std::min(m, n);
  if (linalg::has_kernels(a)) {
    const ProfileRange range(ProfileKind::op, "qr", &a);
    const Reflections r{linalg::own_batch(a), empty({a.size(0), count}, {.dtype = a.dtype(), .device = a.device()})};
    kernels::dense_qr(a.device(), r.packed.view(), r.tau.view());
    return r;
  }
  Reflections r{a.clone(), zeros({a.size(0), count}, {.dtype = a.dtype(), .device = a.device()})};
  for (std::int64_t k = 0; k < std::min(m - 1, n); ++k) {
    const Tensor rest = slice(slice(r.packed, 1, k), 2, k), first = slice(slice(rest, 2, 0, 1), 1, 0, 1);
    const Tensor below = slice(slice(rest, 2, 0, 1), 1, 1), size = norm(below, 2, {1}, true), none = size == 0.0;
    const Tensor length = hypot(first, size), pivot = where(none, first, where(first < 0.0, length, -length));
    const Tensor one = ones_like(first),
                 tau = where(none, zeros_like(first), (pivot - first) / where(none, one, pivot));
    const Tensor tail = below / where(none, one, first - pivot), v = cat({one, tail}, 1);
    const Tensor right = slice(rest, 2, 1);
    Tensor(right).sub_(matmul(tau * v, matmul(transpose(v), right)));
    slice(rest, 2, 0, 1).copy_(cat({pivot, tail}, 1));
    slice(r.tau, 1, k, k + 1).copy_(squeeze(tau, 2));
  }
  return r;
}
// The first `columns` columns of the product of the reflections whose vectors are below the diagonal of v [B, m, k].
Tensor reflected(const Tensor& v, const Tensor& tau, std::int64_t columns) {
  const std::int64_t m = v.size(1), count = tau.size(1);
  const bool recorded = grad_enabled() && (v.requires_grad() || tau.requires_grad());  // then composed of operators
  if (linalg::has_kernels(v) && linalg::has_kernels(tau) && !recorded) {
    const ProfileRange range(ProfileKind::op, "householder_product", &v);
    const Tensor q = empty({v.size(0), m, columns}, {.dtype = v.dtype(), .device = v.device()});
    kernels::dense_reflections(v.device(), q.view(), v.view(), tau.view());
    return q;
  }
  const Tensor unit = identity(v, m), vectors = tril(v, -1) + slice(unit, 1, 0, v.size(2));
  Tensor q = expand(slice(unit, 1, 0, columns), {v.size(0), m, columns});
  for (std::int64_t k = count - 1; k >= 0; --k) {
    const Tensor one = slice(vectors, 2, k, k + 1), factor = unsqueeze(slice(tau, 1, k, k + 1), 2);
    q = q - matmul(factor * one, matmul(transpose(one), q));
  }
  return q;
}

// q and r concatenated in one row per matrix, returned as a single result.
struct Qr {
  static constexpr auto name = "qr";
  static constexpr Dtype cast_inputs = f32;
  bool complete = false;

  std::int64_t rank(std::int64_t m, std::int64_t n) const { return complete ? m : std::min(m, n); }  // rows of r
  QrResult unpack(const Tensor& packed, std::int64_t m, std::int64_t n) const {
    const std::int64_t k = rank(m, n), batch = packed.size(0);
    return {reshape(slice(packed, 1, 0, m * k), {batch, m, k}), reshape(slice(packed, 1, m * k), {batch, k, n})};
  }
  Tensor forward(Saved& saved, const Tensor& a) const {
    linalg::check_precise(name, a);
    const std::int64_t m = a.size(1), n = a.size(2), k = rank(m, n);
    const Reflections f = reflect(a);
    const Tensor q = reflected(slice(f.packed, 2, 0, std::min(m, n)), f.tau, k), r = slice(triu(f.packed), 1, 0, k);
    const Tensor y = cat({flatten(contiguous(q), 1), flatten(contiguous(r), 1)}, 1);
    saved.save({a, y});
    return y;
  }
  // Walter and Lehmann, "Algorithmic differentiation of linear algebra functions", 2010. For a = [x | z] with more
  // columns than rows, x = q u has the gradient of a square matrix, and z = q w that of a product.
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor a = saved[0];
    const std::int64_t m = a.size(1), n = a.size(2), k = std::min(m, n);
    check(!complete || m <= n, "qr: has no gradient with \"complete\" for more rows than columns; use \"reduced\"");
    const QrResult f = unpack(grad_enabled() ? apply_function(*this, a) : saved[1], m, n), d = unpack(g, m, n);
    const Tensor u = slice(f.r, 2, 0, k), gu = triu(slice(d.r, 2, 0, k)), gw = slice(d.r, 2, k), qt = transpose(f.q);
    const Tensor gq = n > k ? d.q + matmul(slice(a, 2, k), transpose(gw)) : d.q;
    const Tensor s = matmul(u, transpose(gu)) - matmul(transpose(gq), f.q);
    const Tensor all_but_u = gq + matmul(f.q, tril(s) + transpose(tril(s, -1)));
    const Tensor gx = transpose(solve_triangular(u, transpose(all_but_u), true));
    return {n > k ? cat({gx, matmul(f.q, gw)}, 2) : gx};
  }
};

void qr_samples(Samples& s) {
  const auto mode = [](const char* name) {
    return [name](const Tensors& x) {
      const QrResult f = qr(x[0], name);
      return Tensors{f.q, f.r};
    };
  };
  for (const Dims& sizes : {Dims{4, 3}, Dims{2, 3, 3}, Dims{2, 5}, Dims{1, 1}, Dims{2, 0, 3}})
    s.call({s.randn(sizes)}, mode("reduced"));
  s.call({s.randn({2, 3, 4})}, mode("complete"));
  s.call({s.randn({4, 2})}, mode("complete")).differentiable = false;
  s.call({s.randn({4, 2})}, [](const Tensors& x) { return qr(x[0], "r").r; });
  s.error_call({s.randn({3})}, mode("reduced"), "qr: needs matrices");
  s.error_call({s.randn({3, 3})}, mode("full"), "qr: mode must be \"reduced\", \"complete\" or \"r\", got \"full\"");
}
void householder_product_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return householder_product(x[0], x[1]); };
  s.call({s.randn({4, 3}), s.randn({2})}, f);
  s.call({s.randn({2, 3, 3}), s.randn({2, 3})}, f);
  s.error_call({s.randn({2, 3}), s.randn({2})}, f,
               "householder_product: needs matrices with no more columns than rows");
  s.error_call({s.randn({3, 2}), s.randn({3})}, f, "householder_product: tau must be [2] or shorter");
}
MANTISSA_COMPOSITE(qr, qr_samples, .halves = false)
MANTISSA_COMPOSITE(householder_product, householder_product_samples, .halves = false)

}  // namespace

QrResult qr(const Tensor& a, std::string_view mode) {
  check(mode == "reduced" || mode == "complete" || mode == "r",
        "qr: mode must be \"reduced\", \"complete\" or \"r\", got \"", mode, "\"");
  check(a.dim() >= 2, "qr: needs matrices [..., m, n], got ", a);
  const std::int64_t m = a.size(-2), n = a.size(-1);
  const Qr op{mode == "complete"};
  const QrResult f = op.unpack(apply_function(op, linalg::as_batch(a)), m, n);
  const std::int64_t k = op.rank(m, n);
  return {mode == "r" ? Tensor() : reshape(f.q, batch_and(a, {m, k})), reshape(f.r, batch_and(a, {k, n}))};
}
Tensor householder_product(const Tensor& a, const Tensor& tau) {
  const char* const name = "householder_product";
  linalg::check_precise(name, a);
  check(a.dim() >= 2 && a.size(-2) >= a.size(-1), name, ": needs matrices with no more columns than rows, got ", a);
  check(tau.dim() == a.dim() - 1 && tau.size(-1) <= a.size(-1) && tau.dtype() == a.dtype() &&
            tau.sizes() == batch_and(a, {tau.size(-1)}),
        name, ": tau must be ", batch_and(a, {a.size(-1)}), " or shorter, and of a's dtype, got ", tau);
  const Tensor q = reflected(linalg::as_batch(a), reshape(tau, {numel_of(batch_and(a, {})), tau.size(-1)}), a.size(-1));
  return reshape(q, a.sizes());
}

}  // namespace mantissa
