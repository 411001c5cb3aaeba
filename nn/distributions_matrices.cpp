#include "nn/distributions_matrices.h"

#include <cmath>
#include <numbers>

#include "core/ops_matrix.h"
#include "core/ops_special.h"
#include "core/random.h"
#include "nn/distributions_gamma.h"
#include "nn/distributions_vectors.h"

namespace mantissa::distributions {
using namespace detail;
namespace {
constexpr double ln2 = std::numbers::ln2;
Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }
Tensor as_matrix(const Tensor& x) { return x.unsqueeze(-1).unsqueeze(-1); }
}  // namespace

Wishart::Wishart(const Parameter& freedom, const Tensor& s) {
  check(s.is_floating() && s.dim() >= 2 && s.size(-1) == s.size(-2), "Wishart: needs scale_tril [..., D, D], got ", s);
  const Tensor tril = wide(s);
  df = freedom.is_number() ? freedom.value().to(tril.device()).to(tril.dtype()) : wide(freedom.value());
  check(df.dtype() == tril.dtype(), "Wishart: the parameters are ", df.dtype(), " and ", tril.dtype());
  const Dims batch = broadcast(df.sizes(), select(select(tril, -1, 0), -1, 0).sizes());
  const std::int64_t d = tril.size(-1);
  df = expand(df, batch);
  scale_tril = expand(tril, extended(batch, Dims{d, d}));
  check_range("Wishart", "df must exceed D - 1", df > static_cast<double>(d - 1));
  check_positive("Wishart", "the diagonal of scale_tril", diagonal(scale_tril, 0, -2, -1));
}
Wishart Wishart::of_covariance(const Parameter& df, const Tensor& covariance) {
  return {df, cholesky(wide(covariance))};
}
Tensor Wishart::rsample(const Dims& shape) const {
  const std::int64_t d = scale_tril.size(-1);
  const Tensor freedom = df.unsqueeze(-1) - arange(0, static_cast<double>(d), 1, like(df));
  const Tensor chi2 = 2 * standard_gamma(expand(0.5 * freedom, extended(shape, freedom.sizes())));
  const Tensor root = matmul(scale_tril, tril(noise(scale_tril, shape), -1) + diag_embed(sqrt(chi2)));
  return matmul(root, transposed(root));
}
Tensor Wishart::log_prob(const Tensor& given) const {
  const Tensor value = wide(given);
  const auto d = static_cast<double>(scale_tril.size(-1));
  const Tensor value_tril = cholesky(value), factor = expand(scale_tril, broadcast(value.sizes(), scale_tril.sizes()));
  const Tensor trace = square(solve_triangular(factor, expand(value_tril, factor.sizes()), false)).sum({-2, -1});
  return -df * (0.5 * d * ln2 + half_log_det(scale_tril)) - mvlgamma(0.5 * df, static_cast<int>(d)) +
         (df - d - 1) * half_log_det(value_tril) - 0.5 * trace;
}
Tensor Wishart::entropy() const {
  const std::int64_t size = scale_tril.size(-1);
  const auto d = static_cast<double>(size);
  const Tensor halves = 0.5 * (df.unsqueeze(-1) - arange(0, d, 1, like(df)));
  return (d + 1) * (0.5 * d * ln2 + half_log_det(scale_tril)) + mvlgamma(0.5 * df, static_cast<int>(size)) -
         0.5 * (df - d - 1) * digamma(halves).sum(-1) + 0.5 * d * df;
}
Tensor Wishart::mean() const { return as_matrix(df) * matmul(scale_tril, transposed(scale_tril)); }
Tensor Wishart::mode() const {
  const Tensor factor = df - static_cast<double>(scale_tril.size(-1)) - 1;
  return as_matrix(where(factor <= 0, Tensor(NAN), factor)) * matmul(scale_tril, transposed(scale_tril));
}
Tensor Wishart::variance() const {
  const Tensor v = matmul(scale_tril, transposed(scale_tril)), diag = diagonal(v, 0, -2, -1);
  return as_matrix(df) * (square(v) + diag.unsqueeze(-1) * diag.unsqueeze(-2));
}

LKJCholesky::LKJCholesky(int size, const Parameter& c) : dim(size), concentration(wide(c.value())) {
  check(dim >= 2, "LKJCholesky: needs a dim of at least 2, got ", dim);
  check_positive("LKJCholesky", "concentration", concentration);
}
Tensor LKJCholesky::sample(const Dims& shape) const {
  const NoGrad no_grad;
  // Row i is a point in the i-dimensional unit ball; the diagonal completes its norm to 1. The first row is 1.
  const Tensor before = arange(0, dim - 1, 1, like(concentration));  // i - 1 of the rows i = 1, ...
  const Beta length2(before / 2 + 0.5, concentration.unsqueeze(-1) + 0.5 * (dim - 2) - before / 2);
  const Tensor radius = sqrt(length2.sample(shape)).unsqueeze(-1);  // [..., dim - 1, 1]
  Dims sizes = radius.sizes();
  sizes.back() = dim;
  const Tensor direction = tril(randn(sizes, like(concentration)));
  const Tensor rows = radius * direction / norm(direction, 2, {-1}, true);
  const Tensor below = pad(rows, {0, 0, 1, 0});
  return below + diag_embed(sqrt(relu(1 - square(below).sum(-1))));
}
Tensor LKJCholesky::log_prob(const Tensor& value) const {
  const int rows = dim - 1;
  const Tensor diag = slice(diagonal(wide(value), 0, -2, -1), -1, 1);
  const Tensor order = 2 * (concentration.unsqueeze(-1) - 1) + dim - arange(2, dim + 1.0, 1, like(concentration));
  const Tensor alpha = concentration + 0.5 * rows;
  const Tensor normalizer =
      0.5 * rows * std::log(std::numbers::pi) + mvlgamma(alpha - 0.5, rows) - rows * lgamma(alpha);
  return (order * log(diag)).sum(-1) - normalizer;
}

}  // namespace mantissa::distributions
