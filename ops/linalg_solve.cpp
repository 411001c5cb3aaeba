// Systems of linear equations: solve, inv, det, slogdet, logdet, solve_triangular, tensorinv, tensorsolve. Gaussian
// elimination with partial pivoting and substitution: by the kernels of core/decompose.h, or for ONNX composed of a few
// operators per row on whole batches. Gradients use the matrix identities (Giles, 2008),
// not the elimination. Next: ops/cholesky.cpp.
#include <cmath>

#include "core/decompose.h"
#include "core/ops_matrix.h"
#include "core/profile.h"
#include "ops/check_values.h"
#include "ops/function.h"
#include "ops/onnx_trace.h"
#include "ops/registry.h"
#include "ops/triangular.h"

namespace mantissa {
namespace linalg {

void check_square(const char* name, const Tensor& a) {
  check(a.dim() >= 2 && a.size(-1) == a.size(-2), name, ": needs square matrices [..., n, n], got ", a);
}
void check_precise(const char* name, const Tensor& a) {
  check(a.dtype() == f32 || a.dtype() == f64, name, ": needs f32 or f64, got ", a, "; convert with to(f32)");
}
Tensor as_batch(const Tensor& x) {
  return contiguous(reshape(x, {numel_of(batch_and(x, {})), x.size(-2), x.size(-1)}));
}
bool has_kernels(const Tensor& a) { return !is_traced(a); }
Tensor own_batch(const Tensor& x) {
  const Tensor y = empty(x.sizes(), {.dtype = x.dtype(), .device = x.device()});
  Tensor(y).copy_(x);
  return reshape(y, {numel_of(batch_and(x, {})), x.size(-2), x.size(-1)});
}
Tensor batch_view(const Tensor& x) {
  return x.dim() == 3 ? x : reshape(x, {numel_of(batch_and(x, {})), x.size(-2), x.size(-1)});
}

Dims batch_and(const Tensor& a, std::initializer_list<std::int64_t> last) {
  Dims sizes;
  for (int d = 0; d + 2 < a.dim(); ++d) sizes.push_back(a.sizes()[d]);
  for (const std::int64_t n : last) sizes.push_back(n);
  return sizes;
}
Tensor identity(const Tensor& like, std::int64_t n) { return eye(n, {.dtype = like.dtype(), .device = like.device()}); }
void check_converged(const char* name, const Tensor& a, const Tensor& good) {
  if (!a.device().is_cpu()) return check_all(name, good, "the steps do not converge");
  for (std::int64_t item = 0; item < good.numel(); ++item)
    check(good.data<bool>()[item], name, ": the steps do not converge for matrix ", item, " of ", a);
}

Tensor substitute(const Tensor& triangle, const Tensor& right, bool upper) {
  const std::int64_t n = triangle.size(-1);
  if (has_kernels(triangle) && has_kernels(right)) {
    const ProfileRange range(ProfileKind::op, "solve_triangular", &right);
    const Tensor x = own_batch(right);
    kernels::dense_solve(x.device(), batch_view(triangle).view(), x.view(), upper ? Triangle::upper : Triangle::lower);
    return reshape(x, right.sizes());
  }
  const Tensor t = as_batch(triangle), x = as_batch(right).clone();
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t k = upper ? n - 1 - i : i, begin = upper ? k + 1 : 0, end = upper ? n : k;
    const Tensor coefficients = slice(t, 1, k, k + 1);
    Tensor row = slice(x, 1, k, k + 1);
    if (begin < end) row.sub_(matmul(slice(coefficients, 2, begin, end), slice(x, 1, begin, end)));
    row.copy_(row / slice(coefficients, 2, k, k + 1));
  }
  return reshape(x, right.sizes());
}

}  // namespace linalg

namespace {

using linalg::as_batch;
using linalg::batch_and;
using linalg::check_precise;
using linalg::check_square;

// The elimination of a [B, n, n] and b [B, n, m]: the factors of a; b with its rows permuted and multiplied by L^-1;
// and the sign of the row permutation [B].
struct Eliminated : linalg::Factors {
  Tensor right, sign;
  Tensor diagonal() const { return mantissa::diagonal(lu, 0, 1, 2); }  // U's, [B, n]
};
Eliminated eliminate(const Tensor& a, const Tensor& b) {
  const std::int64_t batch = a.size(0), n = a.size(1), width = n + b.size(2);
  const Tensor m = cat({a, b}, 2), rows = reshape(arange(n, {.device = a.device()}), {1, n, 1});
  Tensor sign = ones({batch}, {.dtype = a.dtype(), .device = a.device()});
  const Tensor pivots = zeros({batch, n}, {.dtype = i64, .device = a.device()});
  for (std::int64_t k = 0; k < n; ++k) {
    const Tensor best = argmax(abs(slice(slice(m, 1, k), 2, k, k + 1)), 1, true) + k;  // the row of the largest pivot
    const Tensor pivot_row = gather(m, 1, expand(best, {batch, 1, width}));
    Tensor(m).copy_(where(eq(rows, best), slice(m, 1, k, k + 1), m));
    slice(m, 1, k, k + 1).copy_(pivot_row);
    sign = where(reshape(best, {batch}) == k, sign, -sign);
    slice(pivots, 1, k, k + 1).copy_(reshape(best, {batch, 1}) + 1);
    const Tensor pivot = slice(pivot_row, 2, k, k + 1);
    const Tensor divisor = where(pivot == 0.0, ones_like(pivot), pivot);  // below a pivot of 0 all elements are 0
    const Tensor below = slice(m, 1, k + 1), factors = slice(below, 2, k, k + 1) / divisor;
    slice(below, 2, k + 1).sub_(factors * slice(pivot_row, 2, k + 1));
    slice(below, 2, k, k + 1).copy_(factors);
  }
  return {{contiguous(slice(m, 2, 0, n)), pivots}, contiguous(slice(m, 2, n)), sign};
}
// The sign of the permutation that exchanges rows with these pivots [B, n]: [B].
Tensor sign_of(const Tensor& pivots, Dtype dtype) {
  const Tensor rows = arange(pivots.size(1), {.device = pivots.device()}) + 1;
  return prod(1.0 - 2.0 * cast(ne(pivots, rows), dtype), {1});
}
// The same for a [B, n, n] without b, by the kernel where it can be used.
Eliminated eliminate(const char* name, const Tensor& a) {
  if (!linalg::has_kernels(a))
    return eliminate(a, zeros({a.size(0), a.size(1), 0}, {.dtype = a.dtype(), .device = a.device()}));
  const linalg::Factors f = linalg::factor(name, a);
  return {f, Tensor(), sign_of(f.pivots, a.dtype())};
}
// Whether a batch of matrices is one matrix expanded.
bool is_one_matrix(const Tensor& a) {
  for (int d = 0; d + 2 < a.dim(); ++d)
    if (a.sizes()[d] != 1 && a.strides()[d] != 0) return false;
  return a.dim() > 2 && a.numel() > 0;
}
// x := a^-1 x, or transpose(a)^-1 x, for the factors [B, n, n] of a from dense_lu, or [1, n, n] shared by all x.
void solve_by_factors(const Tensor& lu, const Tensor& pivots, const Tensor& x, bool transposed) {
  const std::int64_t n = lu.size(1);
  const Device device = x.device();
  const View factors = expand(transposed ? transpose(lu) : lu, {x.size(0), n, n}).view();
  const View exchanges = expand(pivots, {x.size(0), n}).view();
  if (!transposed) kernels::dense_exchange(device, x.view(), exchanges, false);
  kernels::dense_solve(device, factors, x.view(), transposed ? Triangle::lower : Triangle::unit_lower);
  kernels::dense_solve(device, factors, x.view(), transposed ? Triangle::unit_upper : Triangle::upper);
  if (transposed) kernels::dense_exchange(device, x.view(), exchanges, true);
}
// Throws at the first zero pivot in the factors [B, n, n] of a; on a GPU the next wait throws.
template <class T> void check_regular(const char* name, const Tensor& a, const Tensor& lu) {
  if (!a.device().is_cpu())
    return check_all(name, diagonal(lu, 0, 1, 2) != 0.0, "a is singular, or one of its matrices");
  const std::int64_t n = lu.size(1);
  const T* const factors = lu.data<T>();
  for (std::int64_t item = 0; item < lu.size(0); ++item) {
    for (std::int64_t k = 0; k < n; ++k) {
      if (factors[(item * n + k) * n + k] != T(0)) continue;
      if (lu.size(0) == 1) fail(name, ": a is singular, or one of its matrices: ", a, ": no pivot for column ", k);
      fail(name, ": a is singular, or one of its matrices: ", a, ": in matrix ", item, " no pivot for column ", k);
    }
  }
}

struct Solve {
  static constexpr auto name = "solve";
  static constexpr Dtype cast_inputs = f32;
  const char* caller = name;  // for error messages
  Tensor forward(Saved& saved, const Tensor& a, const Tensor& b) const {
    check_precise(caller, a);
    check(a.dtype() == b.dtype(), "solve: dtypes of ", a, " and ", b, " differ; cast one of them");
    if (!is_traced(a) && !is_traced(b)) {
      const ProfileRange range(ProfileKind::op, caller, &a);
      const std::int64_t n = a.size(-1);
      Tensor one = a;
      if (is_one_matrix(a))
        while (one.dim() > 2) one = select(one, 0, 0);
      const Tensor lu = linalg::own_batch(one), x = linalg::own_batch(b);
      const Tensor pivots = empty({lu.size(0), n}, {.dtype = i64, .device = a.device()});
      kernels::dense_lu(a.device(), lu.view(), pivots.view());
      visit_precise(a.dtype(), [&]<class T> { check_regular<T>(caller, a, lu); });
      solve_by_factors(lu, pivots, x, false);
      const Tensor y = reshape(x, b.sizes());
      saved.save({a, b, y, lu, pivots});
      return y;
    }
    const Eliminated e = eliminate(as_batch(a), as_batch(b));
    check(!any(e.diagonal() == 0.0).item<bool>(), caller, ": a is singular, or one of its matrices: ", a);
    const Tensor x = reshape(linalg::substitute(e.lu, e.right, true), b.sizes());
    saved.save({a, b, x});
    return x;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor x = grad_enabled() ? mantissa::solve(saved[0], saved[1]) : saved[2];
    if (!grad_enabled() && saved.size() > 3) {
      const Tensor gb = linalg::own_batch(g);
      solve_by_factors(saved[3], saved[4], gb, true);
      const Tensor shaped = reshape(gb, g.sizes());
      return {-matmul(shaped, transpose(x)), shaped};
    }
    const Tensor gb = mantissa::solve(transpose(saved[0]), g);
    return {-matmul(gb, transpose(x)), gb};
  }
};

// g times the gradient of log(abs(det(a))).
Tensor times_inverse(const Tensor& g, const Tensor& a) { return unsqueeze(unsqueeze(g, -1), -1) * transpose(inv(a)); }
// The determinant and the logarithm of its absolute value, computed by elimination.
struct Det {
  static constexpr auto name = "det";
  Tensor value;
  Tensor forward(Saved& saved, const Tensor& a) const {
    saved.save({a});
    return value;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor d = grad_enabled() ? mantissa::det(saved[0]) : value;
    return {times_inverse(g * d, saved[0])};
  }
};
struct LogAbsDet {
  static constexpr auto name = "slogdet";
  Tensor value;
  Tensor forward(Saved& saved, const Tensor& a) const {
    saved.save({a});
    return value;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    return {times_inverse(g, saved[0])};
  }
};
struct Triangular {
  static constexpr auto name = "solve_triangular";
  static constexpr Dtype cast_inputs = f32;
  bool upper = false;
  Tensor forward(Saved& saved, const Tensor& a, const Tensor& b) const {
    check_precise(name, a);
    check(a.dtype() == b.dtype(), "solve_triangular: dtypes of ", a, " and ", b, " differ; cast one of them");
    const Tensor x = linalg::substitute(a, b, upper);
    saved.save({a, b, x});
    return x;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor x = grad_enabled() ? solve_triangular(saved[0], saved[1], upper) : saved[2];
    const Tensor gb = solve_triangular(transpose(saved[0]), g, !upper), ga = -matmul(gb, transpose(x));
    return {upper ? triu(ga) : tril(ga), gb};
  }
};

// Broadcasts a and b to the same batch, as the functions above need it.
template <class F> Tensor with_one_batch(const F& f, const Tensor& a, const Tensor& b) {
  check_square(F::name, a);
  check(b.dim() >= 2 && b.size(-2) == a.size(-1), F::name, ": b must have ", a.size(-1), " rows for a of shape ",
        a.sizes(), ", got ", b);
  const Dims batch = broadcast(batch_and(a, {}), batch_and(b, {}));
  Dims sizes_a = batch, sizes_b = batch;
  for (const int d : {-2, -1}) {
    sizes_a.push_back(a.size(d));
    sizes_b.push_back(b.size(d));
  }
  return apply_function(f, expand(a, sizes_a), expand(b, sizes_b));
}

// --- samples: well-conditioned matrices ---
Tensor regular(const Tensor& x) { return x + 3.0 * linalg::identity(x, x.size(-1)); }
void solve_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return solve(regular(x[0]), x[1]); };
  s.call({s.randn({3, 3}), s.randn({3, 2})}, f);
  s.call({s.randn({2, 4, 4}), s.randn({4, 1})}, f);
  s.call({s.randn({3, 3}), s.randn({3})}, f);
  s.error_call(
      {zeros({3, 3}, {.dtype = f64}), s.randn({3})}, [](const Tensors& x) { return solve(x[0], x[1]); },
      "solve: a is singular");
  s.error_call(
      {s.randn({2, 3}), s.randn({3})}, [](const Tensors& x) { return solve(x[0], x[1]); },
      "solve: needs square matrices");
  s.error_call({s.randn({3, 3}), s.randn({2, 1})}, f, "solve: b must have 3 rows");
}
void inv_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return inv(regular(x[0])); };
  s.call({s.randn({3, 3})}, f);
  s.call({s.randn({2, 1, 2, 2})}, f);
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return inv(x[0]); }, "inv: needs square matrices");
  s.error_call(
      {zeros({2, 2}, {.dtype = f64})}, [](const Tensors& x) { return inv(x[0]); }, "inv: a is singular");
}
void det_samples(Samples& s) {
  s.call({s.randn({3, 3})}, [](const Tensors& x) { return det(regular(x[0])); });
  s.call({s.randn({2, 4, 4})}, [](const Tensors& x) { return det(regular(x[0])); });
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return det(x[0]); }, "det: needs square matrices");
}
void slogdet_samples(Samples& s) {
  s.call({s.randn({2, 3, 3})}, [](const Tensors& x) { return slogdet(regular(x[0])).logabsdet; });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return slogdet(x[0]).sign; }, "slogdet: needs square matrices");
}
void logdet_samples(Samples& s) {
  s.call({s.randn({2, 3, 3}) * 0.3}, [](const Tensors& x) { return logdet(regular(x[0])); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return logdet(x[0]); }, "logdet: needs square matrices");
}
void tensorinv_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return tensorinv(x[0]); };
  s.call({s.randn({2, 3, 6})}, [](const Tensors& x) { return tensorinv(x[0]); });
  s.call({s.randn({4, 2, 2})}, [](const Tensors& x) { return tensorinv(x[0], 1); });
  s.error_call({s.randn({2, 3, 4})}, f, "tensorinv: the first 2 dimensions and the rest must have as many elements");
  s.error_call(
      {s.randn({2, 2})}, [](const Tensors& x) { return tensorinv(x[0], 0); }, "tensorinv: ind must be positive, got 0");
}
void tensorsolve_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return tensorsolve(x[0], x[1]); };
  s.call({s.randn({2, 3, 6}), s.randn({2, 3})}, f);
  s.call({s.randn({2, 6, 3}), s.randn({2, 3})}, [](const Tensors& x) { return tensorsolve(x[0], x[1], {1}); });
  s.error_call({s.randn({2, 3, 5}), s.randn({2, 3})}, f, "tensorsolve: a must have as many unknowns as b has elements");
}
void solve_triangular_samples(Samples& s) {
  for (const bool upper : {false, true}) {
    s.call({s.randn({3, 3}), s.randn({2, 3, 2})},
           [upper](const Tensors& x) { return solve_triangular(regular(x[0]), x[1], upper); });
  }
  s.error_call(
      {s.randn({2, 3}), s.randn({3, 1})}, [](const Tensors& x) { return solve_triangular(x[0], x[1], true); },
      "solve_triangular: needs square matrices");
  s.error_call(
      {s.randn({3, 3}), s.randn({2, 1})}, [](const Tensors& x) { return solve_triangular(x[0], x[1], true); },
      "solve_triangular: b must have 3 rows");
}
MANTISSA_COMPOSITE(solve, solve_samples, .halves = false)
MANTISSA_COMPOSITE(inv, inv_samples, .halves = false)
MANTISSA_COMPOSITE(det, det_samples, .halves = false)
MANTISSA_COMPOSITE(slogdet, slogdet_samples, .halves = false)
MANTISSA_COMPOSITE(logdet, logdet_samples, .halves = false)
MANTISSA_COMPOSITE(solve_triangular, solve_triangular_samples, .halves = false)
MANTISSA_COMPOSITE(tensorinv, tensorinv_samples, .halves = false)
MANTISSA_COMPOSITE(tensorsolve, tensorsolve_samples, .halves = false)

}  // namespace

linalg::Factors linalg::factor(const char* name, const Tensor& a) {
  if (!has_kernels(a)) return eliminate(name, a);
  const ProfileRange range(ProfileKind::op, name, &a);
  const Tensor lu = own_batch(a);
  const Tensor pivots = empty({a.size(0), a.size(1)}, {.dtype = i64, .device = a.device()});
  kernels::dense_lu(a.device(), lu.view(), pivots.view());
  Tensor(pivots).add_(1.0);
  return {lu, pivots};
}

Tensor solve(const Tensor& a, const Tensor& b) {
  check_square("solve", a);
  // b is a vector if it is 1-d or has a's batch dimensions and one more
  if (b.dim() == 1 || b.sizes() == batch_and(a, {a.size(-1)}))
    return squeeze(with_one_batch(Solve{}, a, unsqueeze(b, -1)), -1);
  return with_one_batch(Solve{}, a, b);
}
Tensor inv(const Tensor& a) {
  check_square("inv", a);
  check_precise("inv", a);
  return with_one_batch(Solve{"inv"}, a, linalg::identity(a, a.size(-1)));
}
Tensor det(const Tensor& a) {
  check_square("det", a);
  check_precise("det", a);
  const Eliminated e = eliminate("det", as_batch(a.detach()));
  return apply_function(Det{reshape(e.sign * prod(e.diagonal(), {1}), batch_and(a, {}))}, a);
}
SlogdetResult slogdet(const Tensor& a) {
  check_square("slogdet", a);
  check_precise("slogdet", a);
  const Eliminated e = eliminate("slogdet", as_batch(a.detach()));
  const Tensor pivots = e.diagonal();
  return {reshape(e.sign * prod(sign(pivots), {1}), batch_and(a, {})),
          apply_function(LogAbsDet{reshape(sum(log(abs(pivots)), {1}), batch_and(a, {}))}, a)};
}
Tensor logdet(const Tensor& a) {
  check_square("logdet", a);
  const SlogdetResult d = slogdet(a);
  return where(d.sign < 0.0, full_like(d.sign, NAN), d.logabsdet);
}
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper) {
  return with_one_batch(Triangular{upper}, a, b);
}

Tensor tensorinv(const Tensor& a, int ind) {
  check(ind > 0, "tensorinv: ind must be positive, got ", ind);
  Dims first, rest;
  for (int d = 0; d < a.dim(); ++d) (d < ind ? first : rest).push_back(a.sizes()[d]);
  const std::int64_t n = numel_of(first);
  check(n == numel_of(rest), "tensorinv: the first ", ind, " dimensions and the rest must have as many elements, got ",
        a);
  for (const std::int64_t size : first) rest.push_back(size);
  return reshape(inv(reshape(a, {n, n})), rest);
}
Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims) {
  const Tensor moved = dims.empty() ? a : movedim(a, dims, [&] {
    Dims last;
    for (int d = 0; d < dims.rank(); ++d) last.push_back(a.dim() - dims.rank() + d);
    return last;
  }());
  Dims unknowns;
  for (int d = b.dim(); d < moved.dim(); ++d) unknowns.push_back(moved.sizes()[d]);
  const std::int64_t n = b.numel();
  check(moved.dim() >= b.dim() && numel_of(unknowns) == n && moved.numel() == n * n,
        "tensorsolve: a must have as many unknowns as b has elements, got ", a, " and ", b);
  return reshape(solve(reshape(moved, {n, n}), flatten(b)), unknowns);
}

}  // namespace mantissa
