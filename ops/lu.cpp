// LU factorization by Gaussian elimination: lu_factor, lu, lu_solve. Read first: ops/linalg_solve.cpp.
#include "core/decompose.h"
#include "core/ops_matrix.h"
#include "ops/check_values.h"
#include "ops/function.h"
#include "ops/registry.h"
#include "ops/triangular.h"

namespace mantissa {
namespace {

using linalg::batch_and;
using linalg::identity;

Tensor unit_lower(const Tensor& lu) { return tril(lu, -1) + identity(lu, lu.size(-1)); }

// Converts pivots [B, n] (the row that each row was swapped with, in sequence, counted from 1) to the order of a's rows
// in P^T a: [B, n].
Tensor row_order(const Tensor& pivots) {
  const std::int64_t batch = pivots.size(0), n = pivots.size(1);
  const Tensor rows = arange(n, {.device = pivots.device()});
  Tensor order = expand(rows, {batch, n}).clone();
  if (linalg::has_kernels(pivots)) {
    kernels::dense_exchange(order.device(), unsqueeze(order, 2).view(), (pivots - 1).view(), false);
    return order;
  }
  for (std::int64_t k = 0; k < n; ++k) {
    const Tensor other = slice(pivots, 1, k, k + 1) - 1, here = slice(order, 1, k, k + 1).clone();
    const Tensor there = gather(order, 1, other);
    order = where(eq(rows, other), here, order);
    slice(order, 1, k, k + 1).copy_(there);
  }
  return order;
}
void check_pivots(const Tensor& pivots, std::int64_t n) {
  if (!linalg::has_kernels(pivots)) return;
  if (!pivots.device().is_cpu())
    return check_all("lu_solve", logical_and(pivots >= 1.0, pivots <= static_cast<double>(n)), "a pivot is not a row");
  for (const std::int64_t pivot : pivots.to_vector<std::int64_t>())
    check(pivot >= 1 && pivot <= n, "lu_solve: a pivot is ", pivot, ", must be a row of 1 to ", n);
}
Tensor in_order(const Tensor& x, const Tensor& order) {  // permutes the rows of x [B, n, m]
  return gather(x, 1, expand(unsqueeze(order, 2), x.sizes()));
}

// The derivative of a = P L U: Giles, "An extended collection of matrix derivative results", 2008, and de Hoog,
// Anderssen and Lukas, "Differentiation of matrix functionals using triangular factorization", 2011.
struct LuFactor {
  static constexpr auto name = "lu_factor";
  Tensor value, order;  // result of the elimination and, for a gradient, the order of a's rows in it
  Tensor forward(Saved& saved, const Tensor& a) const {
    saved.save({a});
    return value;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor lu = grad_enabled() ? mantissa::lu_factor(saved[0]).lu : value, l = unit_lower(lu), u = triu(lu);
    const Tensor inside = tril(matmul(transpose(l), tril(g, -1)), -1) + triu(matmul(triu(g), transpose(u)));
    const Tensor left = solve_triangular(transpose(l), inside, true);           // L^-T inside
    const Tensor both = transpose(solve_triangular(u, transpose(left), true));  // L^-T inside U^-T
    return {in_order(both, argsort(order, 1))};
  }
};

Tensor regular(const Tensor& x) { return x + 3.0 * identity(x, x.size(-1)); }  // far from singular
void lu_factor_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const LuFactorResult r = lu_factor(x[0]);
    return Tensors{r.lu, r.pivots};
  };
  for (const Dims& sizes : {Dims{3, 3}, Dims{2, 1, 4, 4}, Dims{0, 0}}) s.call({s.randn(sizes)}, f);
  s.error_call({s.randn({2, 3})}, f, "lu_factor: needs square matrices");
}
void lu_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const LuResult r = lu(x[0]);
    return Tensors{matmul(r.p, matmul(r.l, r.u)), r.l, r.u, r.p};
  };
  for (const Dims& sizes : {Dims{3, 3}, Dims{2, 4, 4}}) s.call({s.randn(sizes)}, f);
  s.error_call({s.randn({3})}, f, "lu: needs square matrices");
}
void lu_solve_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const LuFactorResult r = lu_factor(regular(x[0]));
    return lu_solve(r.lu, r.pivots, x[1]);
  };
  s.call({s.randn({3, 3}), s.randn({3, 2})}, f);
  s.call({s.randn({3, 3}), s.randn({2, 3, 1})}, f);
  s.call({s.randn({2, 3, 3}), s.randn({3, 1})}, f);
  s.error_call({s.randn({3, 3}), s.randn({2, 1})}, f, "lu_solve: b must have 3 rows");
  s.error_call(
      {s.randn({3, 3}), s.randn({3, 1})}, [](const Tensors& x) { return lu_solve(x[0], x[1], x[1]); },
      "lu_solve: pivots must be i64 [3], as lu_factor gives them");
}
MANTISSA_COMPOSITE(lu_factor, lu_factor_samples, .halves = false)
MANTISSA_COMPOSITE(lu, lu_samples, .halves = false)
MANTISSA_COMPOSITE(lu_solve, lu_solve_samples, .halves = false)

// Of a as a single batch; lu carries a gradient.
linalg::Factors factors_of(const char* name, const Tensor& a) {
  linalg::check_square(name, a);
  linalg::check_precise(name, a);
  const linalg::Factors f = linalg::factor(name, linalg::as_batch(a.detach()));
  const Tensor order = grad_enabled() && a.requires_grad() ? row_order(f.pivots) : Tensor();
  return {apply_function(LuFactor{f.lu, order}, linalg::as_batch(a)), f.pivots};
}

}  // namespace

LuFactorResult lu_factor(const Tensor& a) {
  const linalg::Factors f = factors_of("lu_factor", a);
  return {reshape(f.lu, a.sizes()), reshape(f.pivots, batch_and(a, {a.size(-1)}))};
}
LuResult lu(const Tensor& a) {
  const linalg::Factors f = factors_of("lu", a);
  const Tensor rows = reshape(arange(a.size(-1), {.device = a.device()}), {a.size(-1), 1});
  const Tensor p = cast(eq(unsqueeze(row_order(f.pivots), 1), rows), a.dtype());  // 1 where a's row goes
  return {reshape(p, a.sizes()), reshape(unit_lower(f.lu), a.sizes()), reshape(triu(f.lu), a.sizes())};
}
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b) {
  linalg::check_square("lu_solve", lu);
  const std::int64_t n = lu.size(-1);
  check(pivots.dtype() == i64 && pivots.sizes() == batch_and(lu, {n}), "lu_solve: pivots must be i64 ",
        batch_and(lu, {n}), ", as lu_factor gives them, got ", pivots);
  check(b.dim() >= 2 && b.size(-2) == n, "lu_solve: b must have ", n, " rows for factors of shape ", lu.sizes(),
        ", got ", b);
  Dims batch = broadcast(batch_and(lu, {}), batch_and(b, {})), sizes = batch, places = batch;
  for (const std::int64_t size : {n, b.size(-1)}) sizes.push_back(size);
  for (const std::int64_t size : {n, std::int64_t{1}}) places.push_back(size);
  check_pivots(pivots, n);
  const Tensor order = reshape(row_order(reshape(pivots, {numel_of(batch_and(lu, {})), n})), batch_and(lu, {n, 1}));
  const Tensor right = gather(expand(b, sizes), -2, expand(order, sizes));
  return solve_triangular(lu, solve_triangular(unit_lower(lu), right, false), true);
}

}  // namespace mantissa
