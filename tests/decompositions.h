// What every decomposition of any matrix fulfils, with errors that grow as n eps: for tests on the CPU and on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/operators.h"
#include "core/ops_matrix.h"
#include "core/random.h"
#include "tests/testing.h"

namespace mantissa::test {

inline double epsilon(const Tensor& x) { return x.dtype() == f64 ? 0x1p-53 : 0x1p-24; }
inline double norm_of(const Tensor& x) { return x.numel() == 0 ? 0 : norm(x.to(f64)).item<double>(); }
inline Tensor identity(std::int64_t n, const Tensor& like) {
  return eye(n, {.dtype = like.dtype(), .device = like.device()});
}

// |got - expected| in units of n eps |expected|; a few for a backward stable method.
inline double error(const Tensor& got, const Tensor& expected) {
  const auto n = static_cast<double>(std::max<std::int64_t>(1, expected.size(-1)));
  return norm_of(got - expected) / (n * epsilon(expected) * std::max(norm_of(expected), 1e-300));
}
inline constexpr double few = 8;
// How far from orthonormal the columns of q are, as an error of the identity.
inline double skewness(const Tensor& q) {
  const Tensor unit = expand(identity(q.size(-1), q), matmul(transpose(q), q).sizes());
  return q.numel() == 0 ? 0 : error(matmul(transpose(q), q), unit);
}

inline void check_decompositions(const Tensor& a) {  // [..., m, n]
  const std::int64_t m = a.size(-2), n = a.size(-1);
  INFO("m " << m << ", n " << n << (a.dtype() == f64 ? ", f64" : ", f32"));
  const QrResult f = qr(a);
  CHECK(error(matmul(f.q, f.r), a) < few);
  CHECK(skewness(f.q) < few);
  CHECK(norm_of(tril(f.r, -1)) == 0);
  const SvdResult s = svd(a);
  CHECK(error(matmul(s.u * unsqueeze(s.s, -2), s.vh), a) < few);
  CHECK(skewness(s.u) < few);
  CHECK(skewness(transpose(s.vh)) < few);
  CHECK(all(s.s >= 0.0).item<bool>());
  CHECK(all(slice(s.s, -1, 1) <= slice(s.s, -1, 0, s.s.size(-1) - 1)).item<bool>());
  CHECK(same_bits(svdvals(a), s.s));
  CHECK(error(matmul(a, matmul(pinv(a), a)), a) < 1e6);  // the condition of a is a factor of this error
  if (m != n) return;

  const Tensor symmetric = a + transpose(a), b = randn(a.sizes(), {.dtype = a.dtype(), .device = a.device()});
  const EighResult e = eigh(symmetric);
  CHECK(error(matmul(e.vectors * unsqueeze(e.values, -2), transpose(e.vectors)), symmetric) < few);
  CHECK(skewness(e.vectors) < few);
  CHECK(all(slice(e.values, -1, 1) >= slice(e.values, -1, 0, n - 1)).item<bool>());
  CHECK(same_bits(eigvalsh(symmetric), e.values));
  CHECK(same_bits(eigvalsh(tril(symmetric)), e.values));  // the upper triangle is not read
  const LuResult l = lu(a);
  CHECK(error(matmul(l.p, matmul(l.l, l.u)), a) < few);
  CHECK(max(abs(l.l)).item<double>() == 1);
  // solve: the residual is small relative to |a| |x|, whatever the condition number.
  const Tensor x = solve(a, b);
  CHECK(norm_of(matmul(a, x) - b) < few * static_cast<double>(n) * epsilon(a) * norm_of(a) * norm_of(x));
  const Tensor positive = matmul(a, transpose(a)) + identity(n, a);
  const Tensor c = cholesky(positive);
  CHECK(error(matmul(c, transpose(c)), positive) < few);
  CHECK(norm_of(triu(c, 1)) == 0);
  for (const bool upper : {false, true}) {
    const Tensor t = upper ? transpose(c) : c, y = solve_triangular(t, b, upper);
    CHECK(norm_of(matmul(t, y) - b) < few * static_cast<double>(n) * epsilon(a) * norm_of(t) * norm_of(y));
    // The other triangle is not read.
    const Tensor other = t + (upper ? tril(b, -1) : triu(b, 1));
    CHECK(same_bits(solve_triangular(other, b, upper), y));
  }
  const SlogdetResult d = slogdet(positive);
  // Matrix by matrix: the sum over a batch could have each one's error and none of their size.
  const Tensor expected = 2.0 * sum(log(diagonal(c.to(f64), 0, -2, -1)), {-1});
  const Tensor allowed = few * static_cast<double>(n) * epsilon(a) * clamp_min(abs(expected), 1.0);
  CHECK(all(abs(d.logabsdet.to(f64) - expected) < allowed).item<bool>());
  CHECK(all(d.sign == 1.0).item<bool>());
}

}  // namespace mantissa::test
