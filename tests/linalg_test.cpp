// Decompositions at realistic sizes: the factors multiply to the original matrix, orthonormal columns are orthonormal,
// with errors that grow as n eps; batches equal separate matrices; bits do not depend on the number of threads; NaN
// terminates. Smaller sizes, every device: cuda_linalg_test.cpp; values and gradients: golden_ops_test.cpp.
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "core/ops_complex.h"
#include "core/ops_matrix.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/decompositions.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

std::uint64_t new_seed() {
  const std::uint64_t seed = std::random_device{}();
  manual_seed(seed);
  return seed;
}

}  // namespace

TEST_CASE("decompositions of hundreds of rows, and of batches, to errors of n eps, in both dtypes") {
  INFO("seed " << new_seed());
  for (const Dtype dtype : {f32, f64}) {
    // Around the sizes of blocks and panels (16, 32, 64), and sizes that split unevenly.
    for (const Dims& sizes : {Dims{31, 31}, Dims{32, 32}, Dims{33, 33}, Dims{65, 65}, Dims{129, 129}, Dims{300, 300},
                              Dims{401, 401}, Dims{300, 40}, Dims{40, 300}, Dims{130, 100}, Dims{100, 130},
                              Dims{50, 8, 8}, Dims{3, 2, 70, 70}, Dims{5, 3, 9}, Dims{4, 1, 1}})
      check_decompositions(randn(sizes, {.dtype = dtype}));
  }
}

TEST_CASE("singular values that are given come back: falling over many powers of ten, equal, and 0") {
  INFO("seed " << new_seed());
  constexpr std::int64_t n = 120;
  for (const Dtype dtype : {f32, f64}) {
    const TensorOptions o{.dtype = dtype};
    const Tensor u = qr(randn({n, n}, o)).q, v = qr(randn({n, n}, o)).q;
    const Tensor powers = exp2(-arange(0, n, 1, o) * 0.5),
                 steps = cat({ones({40}, o), full({40}, 0.5, o), zeros({40}, o)}, 0);
    for (const Tensor& values : {powers, steps, zeros({n}, o), ones({n}, o), powers * 1e18, powers * 1e-18}) {
      const Tensor a = matmul(u * unsqueeze(values, 0), transpose(v)),
                   h = matmul(u * unsqueeze(values, 0), transpose(u));
      const double most = max(values).item<double>(), allowed = few * n * epsilon(a) * most;
      const SvdResult s = svd(a);
      CHECK(max(abs(s.s - values)).item<double>() <= allowed);
      CHECK(skewness(s.u) < few);  // also where values are 0
      CHECK(skewness(transpose(s.vh)) < few);
      const EighResult e = eigh(h);
      CHECK(max(abs(flip(e.values, {0}) - values)).item<double>() <= allowed);
      CHECK(skewness(e.vectors) < few);
    }
    CHECK(matrix_rank(matmul(u * unsqueeze(steps, 0), v)).item<int>() == 80);
    // Without full rank pinv inverts a on its range only; with full rank it equals the QR solution.
    const Tensor thin = randn({90, 30}, o), lacking = matmul(thin, transpose(thin)), p = pinv(lacking);
    CHECK(error(matmul(matmul(lacking, p), lacking), lacking) < 1e3);
    CHECK(error(matmul(pinv(thin), thin), identity(30, thin)) < 100);
    CHECK(norm_of(pinv(thin) - solve(matmul(transpose(thin), thin), transpose(thin))) < 1e3 * epsilon(thin));
  }
}

namespace {

// Pairs [..., 2] times a real matrix, and a column of pairs scaled by pairs.
Tensor times(const Tensor& a, const Tensor& z) { return stack({matmul(a, real(z)), matmul(a, imag(z))}, -1); }

void check_eig(const Tensor& a) {  // [..., n, n]
  INFO("n " << a.size(-1) << (a.dtype() == f64 ? ", f64" : ", f32"));
  const auto n = static_cast<double>(a.size(-1));
  const EigResult r = eig(a);
  REQUIRE(r.values.dtype() == a.dtype());
  const double allowed = few * n * epsilon(a) * norm_of(a);
  CHECK(norm_of(times(a, r.vectors) - complex_mul(r.vectors, unsqueeze(r.values, -3))) <= allowed);
  const Tensor lengths = sum(square(r.vectors), {-1, -3});
  CHECK(norm_of(lengths - ones_like(lengths)) <= few * n * epsilon(a));
  const Tensor values = eigvals(a);
  CHECK(norm_of(values - r.values) <= allowed);
  // Real ones have no imaginary part at all; the others come in pairs, the positive one first.
  const std::vector<double> im = imag(values).to_vector<double>(), re = real(values).to_vector<double>();
  for (std::size_t i = 0; i < im.size(); ++i) {
    if (im[i] == 0) continue;
    REQUIRE(i + 1 < im.size());
    CHECK(im[i] > 0);
    CHECK(im[i] == -im[i + 1]);
    CHECK(re[i] == re[i + 1]);
    ++i;
  }
}
// The real parts of eigenvalues, ascending.
Tensor sorted_real(const Tensor& a) { return sort(real(eigvals(a)), -1).values; }

}  // namespace

TEST_CASE("eigenvalues and vectors of matrices that are not symmetric", "[eig]") {
  INFO("seed " << new_seed());
  for (const Dtype dtype : {f32, f64}) {
    const TensorOptions o{.dtype = dtype};
    for (const Dims& sizes :
         {Dims{1, 1}, Dims{2, 2}, Dims{3, 3}, Dims{10, 4, 4}, Dims{3, 2, 7, 7}, Dims{33, 33}, Dims{150, 150}})
      check_eig(randn(sizes, o));
    manual_seed(5);  // what follows knows how far rounding errors move the values of these matrices
    // of rows and columns of very different size
    const Tensor scale = exp(6.0 * randn({20}, o)), plain = randn({20, 20}, o);
    const Tensor skew = plain * unsqueeze(scale, 0) / unsqueeze(scale, 1);
    CHECK(norm_of(sorted_real(skew) - sorted_real(plain)) < 1e4 * epsilon(plain));
    for (const double size : dtype == f64 ? std::vector<double>{1e250, 1e-250} : std::vector<double>{1e30, 1e-30}) {
      const Tensor there = sorted_real(plain * size) / size;
      CHECK(norm_of(there - sorted_real(plain)) < 1e4 * epsilon(plain));
      const Tensor symmetric = plain + transpose(plain), values = eigvalsh(symmetric), s = svdvals(plain);
      CHECK(norm_of(eigvalsh(symmetric * size) / size - values) < few * 20 * epsilon(plain) * norm_of(values));
      CHECK(norm_of(svdvals(plain * size) / size - s) < few * 20 * epsilon(plain) * norm_of(s));
    }
    // of rows alone of very different size: values over many powers of ten, the small ones with vectors as good
    for (const std::int64_t n : {10, 20, 30, 40}) {
      const Tensor graded = randn({n, n}, o) * pow(full({}, 10.0, o), 12.0 * rand({n, 1}, o) - 6.0);
      const EigResult r = eig(graded);
      const Tensor error = times(graded, r.vectors) - complex_mul(r.vectors, unsqueeze(r.values, -3));
      CHECK(norm_of(error) < 2e4 * static_cast<double>(n) * epsilon(graded) * norm_of(graded));
    }
    // unchanged by a plain QR step: permutations in one circle, whose values lie on the unit circle
    for (const std::int64_t n : {2, 3, 4, 9, 16}) {
      const Tensor turn = roll(identity(n, plain), 1, 0), values = eigvals(turn);
      CHECK(norm_of(complex_abs(values) - ones({n}, o)) < few * static_cast<double>(n) * epsilon(plain));
      check_eig(turn);
    }
    check_eig(zeros({5, 5}, o));
    check_eig(triu(randn({8, 8}, o)));
    CHECK(same_bits(real(eigvals(triu(plain))), diagonal(triu(plain)).contiguous()));
    check_eig(eye(4, o) + diag_embed(ones({3}, o), 1));  // has one vector only
    const Tensor symmetric = plain + transpose(plain);
    CHECK(norm_of(sorted_real(symmetric) - eigvalsh(symmetric)) < few * 20 * epsilon(plain) * norm_of(symmetric));
    CHECK(norm_of(imag(eigvals(symmetric))) == 0);
    // the companion matrix of (x - 1)(x - 2)...(x - 6)
    const Tensor companion =
        cat({unsqueeze(from_data<double>(std::vector<double>{21, -175, 735, -1624, 1764, -720}, {6}), 0).to(dtype),
             slice(eye(6, o), 0, 0, 5)},
            0);
    CHECK(norm_of(sorted_real(companion) - arange(1, 7, 1, o)) < 1e6 * epsilon(plain));
    const Tensor batch = randn({3, 4, 4}, o), first = select(batch, 0, 0).clone();
    select(batch, 0, 1).fill_(NAN);
    const EigResult r = eig(batch);
    CHECK(all(isnan(select(r.values, 0, 1))).item<bool>());
    CHECK(all(isnan(select(r.vectors, 0, 1))).item<bool>());
    CHECK(same_bits(select(r.vectors, 0, 0).contiguous(), eig(first).vectors));
    CHECK(eigvals(zeros({0, 0}, o)).sizes() == Dims{0, 2});
    CHECK(eig(zeros({2, 0, 0}, o)).vectors.sizes() == Dims{2, 0, 0, 2});
  }
  CHECK_THAT(message_of([] { eig(randn({3, 3}).to(f16)); }), Contains("eig: ") && Contains("f16"));
}

TEST_CASE("bits do not depend on threads, nor on the batch or the strides around a matrix") {
  INFO("seed " << new_seed());
  const int before = num_threads();
  for (const Dtype dtype : {f32, f64}) {
    for (const Dims& sizes : {Dims{1, 260, 260}, Dims{40, 12, 12}}) {
      const Tensor a = randn(sizes, {.dtype = dtype}), s = matmul(a, transpose(a)) + identity(sizes.back(), a);
      const std::vector<std::function<Tensor(const Tensor&)>> functions = {
          [](const Tensor& x) { return cholesky(x); },     [](const Tensor& x) { return inv(x); },
          [](const Tensor& x) { return lu_factor(x).lu; }, [](const Tensor& x) { return qr(x).q; },
          [](const Tensor& x) { return svd(x).u; },        [](const Tensor& x) { return eigh(x).vectors; },
          [](const Tensor& x) { return det(x); },          [](const Tensor& x) { return pinv(x); },
          [](const Tensor& x) { return eig(x).vectors; }};
      for (std::size_t i = 0; i < functions.size(); ++i) {
        INFO("function " << i);
        set_num_threads(1);
        const Tensor one = functions[i](s);
        set_num_threads(before > 1 ? before : 4);
        CHECK(same_bits(functions[i](s), one));
        CHECK(same_bits(functions[i](contiguous(transpose(transpose(s)))), one));
        const Tensor wide = zeros({s.size(0), s.size(1), 2 * s.size(2)}, {.dtype = dtype});
        slice(wide, 2, 3, 3 + s.size(2)).copy_(s);
        CHECK(same_bits(functions[i](slice(wide, 2, 3, 3 + s.size(2))), one));
        if (i != 7) CHECK(same_bits(functions[i](select(s, 0, 0)), select(one, 0, 0)));
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("matrices with NaN or infinities come to an end; errors name the matrix of a batch and its row") {
  for (const Dtype dtype : {f32, f64}) {
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      Tensor a = eye(70, {.dtype = dtype}) * 2.0 + ones({70, 70}, {.dtype = dtype});
      slice(slice(a, 0, 40, 41), 1, 7, 8).fill_(bad);
      const Tensor batch = stack({eye(70, {.dtype = dtype}), a}, 0);
      const SvdResult s = svd(batch);
      CHECK(all(isnan(select(s.s, 0, 1))).item<bool>());
      CHECK(all(isnan(select(s.u, 0, 1))).item<bool>());
      CHECK(all(select(s.s, 0, 0) == 1.0).item<bool>());  // its neighbour is sound
      const EighResult e = eigh(batch);
      CHECK(all(isnan(select(e.values, 0, 1))).item<bool>());
      CHECK(all(isnan(select(e.vectors, 0, 1))).item<bool>());
      CHECK(all(select(e.values, 0, 0) == 1.0).item<bool>());
      CHECK(qr(a).q.sizes() == Dims{70, 70});
      CHECK(lu(a).l.sizes() == Dims{70, 70});
      CHECK(!std::isfinite(det(a).item<double>()));
      CHECK(pinv(a).sizes() == Dims{70, 70});
      CHECK(message_of([&] { cholesky(a); }) != "");
    }
  }
  const Tensor batch = stack({eye(50), eye(50), eye(50)}, 0);
  slice(slice(slice(batch, 0, 1, 2), 1, 33, 34), 2, 33, 34).fill_(0.0);
  CHECK_THAT(message_of([&] { cholesky(batch); }),
             Contains("cholesky: matrix 1 is not positive definite: f32[3, 50, 50], from row 33"));
  CHECK_THAT(message_of([&] {
               solve(batch, ones({3, 50, 1}));
             }),
             Contains("solve: a is singular, or one of its matrices: f32[3, 50, 50]: in matrix 1 no pivot for column"));
  const LuFactorResult f = lu_factor(eye(3));
  CHECK_THAT(message_of([&] { lu_solve(f.lu, f.pivots + 1, ones({3, 1})); }), Contains("a pivot is 4"));
}

TEST_CASE("systems of few rows, with few right-hand sides of any strides; signs of permutations") {
  INFO("seed " << new_seed());
  for (const Dtype dtype : {f32, f64}) {
    const TensorOptions o{.dtype = dtype};
    for (std::int64_t n = 1; n <= 9; ++n) {
      const Tensor a = randn({5, n, n}, o) + 3.0 * eye(n, o), wide = a.to(f64);
      const double bound = few * static_cast<double>(n) * epsilon(a) * norm_of(a);
      const Tensor inverse = inv(a).to(f64);
      CHECK(norm_of(matmul(wide, inverse) - eye(n, {.dtype = f64})) < bound * norm_of(inverse));
      for (std::int64_t m = 1; m <= 9; ++m) {
        INFO(name_of(dtype) << " " << n << " rows, " << m << " right-hand sides");
        const Tensor b = randn({5, n, m}, o), x = solve(a, b);
        CHECK(norm_of(matmul(wide, x.to(f64)) - b.to(f64)) < bound * norm_of(x));
        const Tensor turned = transpose(contiguous(transpose(b)));
        CHECK(same_bits(solve(transpose(contiguous(transpose(a))), turned), x));
        CHECK(same_bits(solve(select(a, 0, 3), select(b, 0, 3)), select(x, 0, 3)));
        for (const bool upper : {false, true}) {
          const Tensor t = upper ? triu(a) : tril(a), y = solve_triangular(a, turned, upper);
          CHECK(norm_of(matmul(t.to(f64), y.to(f64)) - b.to(f64)) < bound * norm_of(y));
        }
      }
    }
    const std::vector<std::int64_t> orders[] = {{0, 1, 2, 3}, {1, 0, 2, 3}, {1, 2, 0, 3}, {1, 2, 3, 0}, {3, 2, 1, 0}};
    const double signs[] = {1, -1, 1, -1, 1};
    for (std::size_t i = 0; i < std::size(orders); ++i) {
      const Tensor p = index_select(eye(4, o), 0, mantissa::tensor(orders[i]));
      CHECK(det(p).item<double>() == signs[i]);
      CHECK(slogdet(p).sign.item<double>() == signs[i]);
    }
  }
}

TEST_CASE("one matrix serves many right-hand sides, and gradients come from its factors") {
  INFO("seed " << new_seed());
  const TensorOptions o{.dtype = f64};
  const Tensor a = (randn({60, 60}, o) + 20.0 * eye(60, o)).requires_grad_(), b = randn({5, 60, 3}, o).requires_grad_();
  const Tensor w = randn({5, 60, 3}, o), x = solve(a, b);
  sum(x * w).backward();
  // x = a^-1 b: db = a^-T w, da = -db x^T, summed over the batch.
  const Tensor db = matmul(transpose(inv(a.detach())), w), da = -sum(matmul(db, transpose(x.detach())), {0});
  CHECK(norm_of(b.grad() - db) < 1e-12 * norm_of(db));
  CHECK(norm_of(a.grad() - da) < 1e-12 * norm_of(da));
}

TEST_CASE("polar, svd_lowrank and pca_lowrank") {
  INFO("seed " << new_seed());
  for (const Dtype dtype : {f32, f64}) {
    const TensorOptions o{.dtype = dtype};
    const Tensor a = randn({2, 80, 50}, o);
    const PolarResult p = polar(a);
    CHECK(error(matmul(p.u, p.h), a) < few);
    CHECK(skewness(p.u) < few);
    CHECK(error(transpose(p.h), p.h) < few);
    CHECK(eigvalsh(p.h).to(f64).to_vector<double>()[0] > 0);
    for (const Dims& sizes : {Dims{200, 60}, Dims{60, 200}}) {
      // Values that halve: the first eight are found nearly as svd finds them.
      const Tensor u = qr(randn({sizes[0], 40}, o)).q, v = qr(randn({sizes[1], 40}, o)).q;
      const Tensor values = exp2(-arange(0, 40, 1, o)), m = matmul(u * unsqueeze(values, 0), transpose(v)) + 3.0;
      const LowRankResult r = svd_lowrank(m, 12);
      CHECK((r.u.sizes() == Dims{sizes[0], 12} && r.s.sizes() == Dims{12} && r.v.sizes() == Dims{sizes[1], 12}));
      CHECK(skewness(r.u) < few);
      CHECK(skewness(r.v) < few);
      const SvdResult whole = svd(m);
      CHECK(max(abs(slice(r.s, 0, 0, 8) / slice(whole.s, 0, 0, 8) - 1.0)).item<double>() <
            (dtype == f64 ? 1e-9 : 2e-2));
      // Without their means the rows have no direction of ones left to right that is the same in all.
      const LowRankResult c = pca_lowrank(m, 12);
      const SvdResult centered = svd(m - mean(m, {0}, true));
      CHECK(max(abs(slice(c.s, 0, 0, 5) / slice(centered.s, 0, 0, 5) - 1.0)).item<double>() < 1e-3);
      manual_seed(7);
      const Tensor first = svd_lowrank(m, 4, 0).u;
      manual_seed(7);
      CHECK(same_bits(svd_lowrank(m, 4, 0).u, first));
    }
    CHECK(svd_lowrank(randn({4, 3}, o)).s.sizes() == Dims{3});
    CHECK(pca_lowrank(randn({3, 0}, o)).s.sizes() == Dims{0});
  }
}
