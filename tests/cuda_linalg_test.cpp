// Linear systems and singular values on every device: the defining equations hold for many sizes, for matrices that
// need pivoting, are singular, have repeated singular values or are rank-deficient; nothing waits for a GPU. Values and
// gradients: golden_ops_test.cpp, op_test.cpp.
#include <cmath>
#include <functional>
#include <vector>

#include "autograd/backward.h"
#include "core/ops_matrix.h"
#include "core/random.h"
#include "jit/capture.h"
#include "tests/decompositions.h"
#include "tests/devices.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

double worst(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(x)).item<double>(); }

// Correct shapes, descending values, vectors orthonormal up to the rank, and a product equal to a.
void check_svd(const Tensor& a, std::int64_t rank, double tolerance) {
  const SvdResult r = svd(a);
  const Tensor vh = slice(r.vh, -2, 0, rank), u = slice(r.u, -1, 0, rank);
  CHECK(worst(matmul(r.u * unsqueeze(r.s, -2), r.vh) - a) <= tolerance * (1 + worst(r.s)));
  CHECK(worst(matmul(transpose(u), u) - identity(rank, a)) <= tolerance);
  CHECK(worst(matmul(vh, transpose(vh)) - identity(rank, a)) <= tolerance);
  const std::int64_t k = r.s.size(-1);
  CHECK(all(slice(r.s, -1, 0, std::max<std::int64_t>(k - 1, 0)) >= slice(r.s, -1, 1)).item<bool>());
  CHECK(all(r.s >= 0.0).item<bool>());
  CHECK(worst(slice(r.s, -1, rank)) <= tolerance * (1 + worst(r.s)));
}

}  // namespace

TEST_CASE("svd takes matrices apart: sizes, lack of rank, equal singular values, both dtypes") {
  for (const Device device : devices()) {
    manual_seed(1);
    for (const Dtype dtype : {f64, f32}) {
      const double tolerance = dtype == f64 ? 1e-12 : 1e-4;
      const auto draw = [&](const Dims& sizes) { return randn(sizes, {.dtype = dtype}).to(device); };
      for (const Dims& sizes : {Dims{1, 1}, Dims{2, 2}, Dims{7, 3}, Dims{3, 8}, Dims{20, 20}, Dims{2, 9, 11}}) {
        INFO(to_string(from_data<std::int64_t>(std::vector<std::int64_t>(sizes.begin(), sizes.end()), {sizes.rank()})));
        check_svd(draw(sizes), std::min(sizes[sizes.rank() - 1], sizes[sizes.rank() - 2]), tolerance);
      }
      check_svd(matmul(draw({9, 4}), draw({4, 7})), 4, tolerance);
      check_svd(matmul(draw({5, 1}), draw({1, 5})), 1, tolerance);
      check_svd(zeros({4, 3}, {.dtype = dtype}).to(device), 0, tolerance);
      check_svd(identity(6, draw({1})) * 2.0, 6, tolerance);
      check_svd(cat({draw({6, 3}), zeros({6, 2}, {.dtype = dtype}).to(device)}, 1), 3, tolerance);
      CHECK(matrix_rank(matmul(draw({9, 4}), draw({4, 7}))).item<int>() == 4);
    }
    CHECK(svd(full({2, 2}, NAN).to(device)).s.sizes() == Dims{2});  // ends
  }
}

TEST_CASE("solve, inv and det, where rows must be exchanged and for many sizes") {
  for (const Device device : devices()) {
    manual_seed(2);
    const TensorOptions o{.dtype = f64};
    const Tensor exchange = tensor({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}, o).to(device);  // an even permutation
    CHECK(equal(inv(exchange), transpose(exchange)));
    CHECK(det(exchange).item<double>() == 1);
    CHECK(det(tensor({{0, 2}, {3, 0}}, o).to(device)).item<double>() == -6);
    for (const std::int64_t n : {1, 2, 5, 17, 40}) {
      const Tensor a = randn({2, n, n}, o).to(device), b = randn({2, n, 3}, o).to(device);
      CHECK(worst(matmul(a, solve(a, b)) - b) < 1e-10);
      CHECK(worst(matmul(inv(a), a) - identity(n, a)) < 1e-10);
      const SlogdetResult d = slogdet(a);
      CHECK(worst(d.sign * exp(d.logabsdet) / det(a) - 1.0) < 1e-12);
      const Tensor c = cholesky(matmul(a, transpose(a)) + identity(n, a));
      CHECK(worst(matmul(c, transpose(c)) - matmul(a, transpose(a)) - identity(n, a)) < 1e-11);
      CHECK(worst(triu(c, 1)) == 0);
      CHECK(worst(matmul(c, solve_triangular(c, b, false)) - b) < 1e-11);
      CHECK(worst(matmul(pinv(a), a) - identity(n, a)) < 1e-8);
    }
    const Tensor singular = tensor({{1, 2}, {2, 4}}, o).to(device);
    CHECK(det(singular).item<double>() == 0);
    CHECK(slogdet(singular).sign.item<double>() == 0);
    CHECK(slogdet(singular).logabsdet.item<double>() == -HUGE_VAL);
    CHECK_THAT(message_of([&] {
                 solve(singular, identity(2, singular));
                 synchronize(device);
               }),
               Contains("solve: a is singular, or one of its matrices"));
    CHECK_THAT(message_of([&] { inv(singular.to(f16)); }), Contains("inv: needs f32 or f64, got f16[2, 2]"));
    CHECK_THAT(message_of([&] {
                 cholesky(singular - 3.0 * identity(2, singular));
                 synchronize(device);
               }),
               Contains("not positive definite"));
  }
}

TEST_CASE("eigh: values rise, vectors are orthonormal, also for equal values, and only the lower triangle is read") {
  for (const Device device : devices()) {
    manual_seed(3);
    const auto check_eigh = [&](const Tensor& a) {
      const EighResult r = eigh(a);
      const std::int64_t n = a.size(-1);
      CHECK(worst(matmul(a, r.vectors) - r.vectors * unsqueeze(r.values, -2)) < 1e-12 * (1 + worst(a)));
      CHECK(worst(matmul(transpose(r.vectors), r.vectors) - identity(n, a)) < 1e-12);
      CHECK(all(slice(r.values, -1, 1) >= slice(r.values, -1, 0, n - 1)).item<bool>());
    };
    const TensorOptions o{.dtype = f64};
    for (const std::int64_t n : {1, 2, 3, 8, 21}) {
      const Tensor x = randn({2, n, n}, o).to(device);
      check_eigh(x + transpose(x));
      CHECK(equal(eigvalsh(x), eigvalsh(tril(x) + transpose(tril(x, -1)))));
    }
    const Tensor v = randn({5, 1}, o).to(device);
    check_eigh(matmul(v, transpose(v)));
    check_eigh(-matmul(v, transpose(v)));
    check_eigh(zeros({3, 3}, o).to(device));
    check_eigh(identity(4, v) * -2.0);
  }
}

TEST_CASE("qr: orthonormal columns and an upper triangle, for every shape, lack of rank and columns of zeros") {
  for (const Device device : devices()) {
    manual_seed(4);
    for (const Dtype dtype : {f64, f32}) {
      const double tolerance = dtype == f64 ? 1e-13 : 1e-5;
      const auto draw = [&](const Dims& sizes) { return randn(sizes, {.dtype = dtype}).to(device); };
      const auto check_qr = [&](const Tensor& a, std::string_view mode) {
        const QrResult f = qr(a, mode);
        CHECK(worst(matmul(f.q, f.r) - a) <= tolerance * (1 + worst(a)));
        CHECK(worst(matmul(transpose(f.q), f.q) - identity(f.q.size(-1), a)) <= tolerance);
        CHECK(worst(tril(f.r, -1)) == 0);
        CHECK(equal(f.r, mode == "reduced" ? qr(a, "r").r : f.r));
      };
      for (const Dims& sizes :
           {Dims{1, 1}, Dims{7, 3}, Dims{3, 8}, Dims{20, 20}, Dims{2, 11, 9}, Dims{1, 4}, Dims{2, 45, 40}}) {
        check_qr(draw(sizes), "reduced");
        check_qr(draw(sizes), "complete");
      }
      check_qr(matmul(draw({9, 4}), draw({4, 7})), "reduced");
      check_qr(zeros({4, 3}, {.dtype = dtype}).to(device), "complete");
      check_qr(cat({zeros({6, 2}, {.dtype = dtype}).to(device), draw({6, 3})}, 1), "reduced");
    }
    const Tensor a = randn({4, 2}, {.dtype = f64}).to(device).requires_grad_();
    CHECK_THAT(message_of([&] { sum(qr(a, "complete").q).backward(); }),
               Contains("has no gradient with \"complete\" for more rows than columns; use \"reduced\""));
  }
}

TEST_CASE("lu: factors that make the matrix again, and solve equations; matrix_exp of large and small matrices") {
  for (const Device device : devices()) {
    manual_seed(5);
    const TensorOptions o{.dtype = f64};
    for (const std::int64_t n : {1, 2, 5, 17, 40}) {
      const Tensor a = randn({2, n, n}, o).to(device), b = randn({2, n, 3}, o).to(device);
      const LuResult f = lu(a);
      CHECK(worst(matmul(f.p, matmul(f.l, f.u)) - a) < 1e-12);
      CHECK(worst(f.l) == 1);
      const LuFactorResult packed = lu_factor(a);
      CHECK(worst(matmul(a, lu_solve(packed.lu, packed.pivots, b)) - b) < 1e-10);
      CHECK(worst(matmul(matrix_exp(a), matrix_exp(-a)) - identity(n, a)) < 1e-4);  // of condition e^(2 norm)
      CHECK(worst(matmul(matrix_exp(a * 0.01), matrix_exp(a * -0.01)) - identity(n, a)) < 1e-14);
      const Tensor skew = 9.0 * (a - transpose(a)), turn = matrix_exp(skew);
      CHECK(worst(matmul(transpose(turn), turn) - identity(n, a)) < 1e-11);
    }
    const Tensor singular = tensor({{0, 0}, {0, 4}}, o).to(device);
    CHECK(worst(matmul(lu(singular).p, matmul(lu(singular).l, lu(singular).u)) - singular) == 0);
    // Each matrix has its own scale.
    const Tensor mixed = matrix_exp(reshape(tensor({0, 1, 0, 0, 0, 0, 0, 100}, o), {2, 2, 2}).to(device));
    CHECK(equal(select(mixed, 0, 0), tensor({{1, 1}, {0, 1}}, o).to(device)));
    CHECK(std::abs(mixed[{1, 1, 1}].item<double>() / std::exp(100.0) - 1) < 1e-12);
    CHECK(all(isnan(matrix_exp(full({2, 2}, NAN, o).to(device)))).item<bool>());
    CHECK(cond(singular).item<double>() == HUGE_VAL);
  }
}

TEST_CASE("matrices of several blocks: results and gradients on the device are those of the CPU") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const TensorOptions o{.dtype = f64};
  const auto regular = [](const Tensor& x) { return x + 9.0 * identity(x.size(-1), x); };
  const auto positive = [&](const Tensor& x) { return matmul(x, transpose(x)) + identity(x.size(-1), x); };
  const std::vector<std::function<Tensor(const Tensor& x, const Tensor& b)>> functions{
      [&](const Tensor& x, const Tensor& b) { return solve(regular(x), b); },
      [&](const Tensor& x, const Tensor&) { return inv(regular(x)); },
      [&](const Tensor& x, const Tensor&) { return slogdet(regular(x)).logabsdet; },
      [&](const Tensor& x, const Tensor& b) { return solve_triangular(regular(x), b, true); },
      [&](const Tensor& x, const Tensor&) { return cholesky(positive(x)); },
      [&](const Tensor& x, const Tensor& b) { return cholesky_solve(b, cholesky(positive(x))); },
      [&](const Tensor& x, const Tensor& b) {
        const LuFactorResult f = lu_factor(regular(x));
        return lu_solve(f.lu, f.pivots, b);
      },
      [&](const Tensor& x, const Tensor&) { return matmul(lu(regular(x)).p, lu(regular(x)).l); },
      [&](const Tensor& x, const Tensor&) { return qr(regular(x)).q; },
      [&](const Tensor& x, const Tensor&) { return householder_product(x * 0.1, select(x, -1, 0)); },
      [&](const Tensor& x, const Tensor&) { return svdvals(x); },
      [&](const Tensor& x, const Tensor&) { return square(svd(x).u); },
      [&](const Tensor& x, const Tensor&) { return pinv(regular(x)); },
      [&](const Tensor& x, const Tensor&) { return eigvalsh(x + transpose(x)); },
      [&](const Tensor& x, const Tensor&) { return square(eigh(x + transpose(x)).vectors); }};
  manual_seed(6);
  const Tensor x = randn({2, 36, 36}, o), b = randn({2, 36, 3}, o);
  for (std::size_t k = 0; k < functions.size(); ++k) {
    INFO("function " << k);
    const auto run = [&](Device device) {
      const Tensor xd = x.detach().to(device).requires_grad_(), bd = b.detach().to(device).requires_grad_();
      const Tensor y = functions[k](xd, bd);
      CHECK(y.device() == device);
      const std::vector<Tensor> g = grad(sum(square(y)), {xd, bd}, {.allow_unused = true});
      return std::vector<Tensor>{y.detach().to(cpu), g[0].to(cpu), g[1].defined() ? g[1].to(cpu) : zeros_like(b)};
    };
    const std::vector<Tensor> expected = run(cpu), got = run(cuda);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(worst(got[i] - expected[i]) <= 1e-9 * (1 + worst(expected[i])));
  }
}

TEST_CASE("decompositions on a GPU, around the sizes of its blocks and beyond, to errors of n eps") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(7);
  for (const Dtype dtype : {f32, f64}) {
    for (const Dims& sizes :
         {Dims{33, 33}, Dims{65, 65}, Dims{70, 40}, Dims{34, 66}, Dims{2, 35, 35}, Dims{6, 8, 8}, Dims{4, 1, 1}})
      check_decompositions(randn(sizes, {.dtype = dtype}).to(cuda));
  }
}

TEST_CASE("singular values and eigenvalues that are given come back: many powers of ten, equal, 0, large and small") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  manual_seed(8);
  for (const Dtype dtype : {f32, f64}) {
    const TensorOptions o{.dtype = dtype, .device = cuda};
    for (const std::int64_t n : {24, 66}) {
      const Tensor u = qr(randn({n, n}, o)).q, v = qr(randn({n, n}, o)).q, some = arange(0, n, 1, o);
      const Tensor powers = exp2(some * -0.5),
                   steps = where(some < 8.0, 1.0, where(some < 16.0, 0.5, zeros_like(some)));
      for (const Tensor& values : {powers, steps, zeros({n}, o), ones({n}, o), powers * 1e18, powers * 1e-18}) {
        const Tensor a = matmul(u * unsqueeze(values, 0), transpose(v)),
                     h = matmul(u * unsqueeze(values, 0), transpose(u));
        const double allowed = few * static_cast<double>(n) * epsilon(a) * max(values).item<double>();
        const SvdResult s = svd(a);
        CHECK(worst(s.s - values) <= allowed);
        CHECK(worst(matmul(s.u * unsqueeze(s.s, -2), s.vh) - a) <= allowed);
        CHECK(skewness(s.u) < few);  // also where values are 0
        CHECK(skewness(transpose(s.vh)) < few);
        const EighResult e = eigh(h);
        CHECK(worst(flip(e.values, {0}) - values) <= allowed);
        CHECK(skewness(e.vectors) < few);
      }
      CHECK(matrix_rank(matmul(u * unsqueeze(steps, 0), v)).item<int>() == 16);
    }
  }
}

TEST_CASE("matrices that are one pair of blocks converge in the few sweeps that these get") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  manual_seed(10);
  for (const Dtype dtype : {f32, f64}) {
    const TensorOptions o{.dtype = dtype};
    const std::int64_t n = dtype == f64 ? 32 : 64;
    const Tensor some = arange(0, n, 1, o), fall = exp2(some * (-60.0 / static_cast<double>(n))), r = randn({n, n}, o);
    const Tensor hilbert = 1.0 / (unsqueeze(some, 0) + unsqueeze(some, 1) + 1.0);
    for (const Tensor& a : {r * unsqueeze(fall, 0), r * unsqueeze(fall, 1), flip(r * unsqueeze(fall, 1), {0}), hilbert,
                            ones({n, n}, o), 2.0 * eye(n, o) - triu(ones({n, n}, o))}) {
      const Tensor expected = svdvals(a);
      CHECK(worst(svdvals(a.to(cuda)).to(cpu) - expected) <=
            few * static_cast<double>(n) * epsilon(a) * worst(expected));
    }
  }
}

TEST_CASE("on a GPU errors of decompositions come when the host waits, and NaN stays in its matrix") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  const auto said = [](const std::function<void()>& f) { return message_of([&] { f(), synchronize(cuda); }); };
  for (const std::int64_t n : {5, 70}) {
    const Tensor unit = eye(n, {.device = cuda}), bad = unit.clone();
    slice(slice(bad, 0, n - 1), 1, n - 1).fill_(0.0);
    const Tensor batch = stack({unit, bad}, 0), b = ones({2, n, 1}, {.device = cuda});
    CHECK_THAT(said([&] { solve(batch, b); }), Contains("solve: a is singular, or one of its matrices"));
    CHECK_THAT(said([&] { inv(batch); }), Contains("inv: a is singular"));
    CHECK_THAT(said([&] { cholesky(batch); }), Contains("cholesky: ") && Contains("is not positive definite"));
    const LuFactorResult f = lu_factor(unit);
    CHECK_THAT(said([&] { lu_solve(f.lu, f.pivots + 1, select(b, 0, 0)); }),
               Contains("lu_solve: a pivot is not a row"));
    CHECK(said([&] { solve(unit, b), cholesky(unit), inv(unit); }) == "");
    slice(slice(bad, 0, n - 1), 1, 0, 1).fill_(NAN);
    const Tensor with_nan = stack({bad, 3.0 * unit}, 0);
    const SvdResult s = svd(with_nan);
    const EighResult e = eigh(with_nan);
    for (const Tensor& x : {s.u, s.s, s.vh, e.values, e.vectors}) CHECK(all(isnan(select(x, 0, 0))).item<bool>());
    for (const Tensor& x : {s.s, e.values}) CHECK(all(select(x, 0, 1) == 3.0).item<bool>());
  }
}

TEST_CASE("decompositions and their gradients in captured steps, with the bits of eager ones") {
  if (!cuda_is_available()) {
    WARN("no GPU and no shim: skipped");
    return;
  }
  manual_seed(9);
  const auto body = [](const Tensor& given) {
    const Tensor x = given.detach().requires_grad_(), unit = identity(x.size(-1), x);
    const Tensor positive = matmul(x, transpose(x)) + unit;
    const QrResult f = qr(x);
    const Tensor y = sum(cholesky(positive)) + logdet(positive) + sum(solve(positive, x)) + sum(inv(positive)) +
                     sum(square(matmul(f.q, solve_triangular(f.r + 9.0 * unit, x, true)))) + sum(lu(positive).u) +
                     sum(svdvals(x)) + sum(eigvalsh(positive)) + sum(pinv(positive)) + cond(positive);
    y.backward();
    return stack({x.grad(), svd(x.detach()).u, eigh(positive.detach()).vectors}, 0);
  };
  for (const std::int64_t n : {6, 40}) {
    auto step = jit::capture(body);
    for (int i = 0; i < 3; ++i) {
      const Tensor x = randn({n, n}).to(cuda);
      CHECK(same_bits(step(x), body(x)));
    }
    CHECK(step.replays() == 1);
  }
}
