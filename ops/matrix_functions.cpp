// Products, powers and norms of matrices composed of matmul and reductions: multi_dot, matrix_power, matrix_norm, cond,
// vander. Read first: ops/products.cpp.
#include <array>
#include <cmath>
#include <limits>

#include "core/ops_matrix.h"
#include "ops/compose.h"
#include "ops/floating.h"

namespace mantissa {
namespace {

struct MatrixNorm {
  static constexpr auto name = "matrix_norm";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_default;
  static constexpr bool differentiable = true;
  static constexpr double nuclear = 0;  // marks the nuclear norm: no norm has ord 0
  std::optional<double> ord = {};       // default: Frobenius
  Dims dims{-2, -1};
  bool keepdim = false;

  // With keepdim, gives y (x reduced over two dimensions) these dimensions back as 1.
  static Tensor shaped(const Tensor& y, const Tensor& x, int rows, int columns, bool keepdim) {
    Dims sizes = x.sizes();
    sizes[rows] = sizes[columns] = 1;
    return keepdim ? reshape(y, sizes) : y;
  }
  static Tensor compose(const MatrixNorm& op, const Tensor& x) {
    check_floating(x);
    check(x.dim() >= 2, "needs at least 2 dimensions");
    check(op.dims.rank() == 2, "dims must be two, got ", op.dims);
    const int rows = wrap_dim(op.dims[0], x.dim()), columns = wrap_dim(op.dims[1], x.dim());
    check(rows != columns, "both dims are ", rows);
    if (!op.ord) return norm(x, 2, {rows, columns}, op.keepdim);
    if (*op.ord == nuclear) {
      const Tensor s = svdvals(movedim(x, Dims{rows, columns}, Dims{-2, -1}));
      return shaped(sum(s, {-1}), x, rows, columns, op.keepdim);
    }
    const double ord = *op.ord, size = std::abs(ord);
    check(size == 1 || size == 2 || std::isinf(ord),
          "ord must be \"fro\", \"nuc\", 1, -1, 2, -2, HUGE_VAL or -HUGE_VAL, got ", ord);
    if (size == 2) {
      const Tensor s = svdvals(movedim(x, Dims{rows, columns}, Dims{-2, -1}));
      if (ord > 0 && s.size(-1) == 0) return shaped(sum(s, {-1}), x, rows, columns, op.keepdim);  // 0, as in PyTorch
      return shaped(ord > 0 ? amax(s, {-1}) : amin(s, {-1}), x, rows, columns, op.keepdim);
    }
    const int summed = size == 1 ? rows : columns, chosen = size == 1 ? columns : rows;
    const Tensor sums = sum(abs(x), {summed}, true);
    const bool none = sums.size(chosen) == 0 && ord > 0;  // the norm of an empty matrix is 0
    const Tensor y = none      ? sum(sums, {chosen}, true)
                     : ord > 0 ? amax(sums, {chosen}, true)
                               : amin(sums, {chosen}, true);
    if (op.keepdim) return y;
    return squeeze(squeeze(y, std::max(rows, columns)), std::min(rows, columns));
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 4})}, MatrixNorm{});
    for (const double ord : {1.0, -1.0, HUGE_VAL, -HUGE_VAL})
      composed(s, {s.randn({2, 3, 4})}, MatrixNorm{ord, {0, 2}, ord > 0});
    for (const double ord : {2.0, -2.0, nuclear}) composed(s, {s.randn({3, 2, 4})}, MatrixNorm{ord, {2, 0}, ord > 0});
    composed_error(s, {s.randn({3})}, MatrixNorm{}, "needs at least 2 dimensions");
    composed_error(s, {s.randn({3, 3})}, MatrixNorm{{}, {0, -2}}, "both dims are 0");
    composed_error(s, {s.randn({3, 3})}, MatrixNorm{{}, {0}}, "dims must be two");
    composed_error(s, {s.randn({3, 3})}, MatrixNorm{-3}, "ord must be");
    composed_error(s, {s.randn({3, 3})}, MatrixNorm{3}, "ord must be \"fro\", \"nuc\", 1, -1");
    composed_error(s, {s.integers({3, 3}, 0, 4)}, MatrixNorm{}, "needs a floating dtype");
  }
};

// The order in which a chain of matrices costs the fewest multiplications (Cormen et al., Introduction to
// Algorithms, 15.2).
class Chain {
 public:
  explicit Chain(std::span<const Tensor> matrices) : matrices_(matrices), n_(matrices.size()), split_(n_ * n_) {
    std::vector<double> cost(n_ * n_);
    for (std::size_t length = 1; length < n_; ++length) {
      for (std::size_t i = 0; i + length < n_; ++i) {
        const std::size_t j = i + length;
        cost[i * n_ + j] = std::numeric_limits<double>::infinity();
        for (std::size_t k = i; k < j; ++k) {
          const double now = cost[i * n_ + k] + cost[(k + 1) * n_ + j] + edge(i) * edge(k + 1) * edge(j + 1);
          if (now >= cost[i * n_ + j]) continue;
          cost[i * n_ + j] = now;
          split_[i * n_ + j] = k;
        }
      }
    }
  }
  Tensor product() const { return product(0, n_ - 1); }

 private:
  double edge(std::size_t i) const {
    return static_cast<double>(i < n_ ? matrices_[i].size(0) : matrices_[n_ - 1].size(1));
  }
  Tensor product(std::size_t i, std::size_t j) const {
    if (i == j) return matrices_[i];
    const std::size_t k = split_[i * n_ + j];
    return matmul(product(i, k), product(k + 1, j));
  }
  std::span<const Tensor> matrices_;
  std::size_t n_;
  std::vector<std::size_t> split_;
};

void multi_dot_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return multi_dot(x); };
  s.call({s.randn({2, 3}), s.randn({3, 4})}, f);
  s.call({s.randn({4, 2}), s.randn({2, 5}), s.randn({5, 1}), s.randn({1, 3})}, f);
  s.call({s.randn({3}), s.randn({3, 4}), s.randn({4})}, f);
  s.error_call({s.randn({2, 2})}, f, "multi_dot: needs at least 2 tensors, got 1");
  s.error_call({s.randn({2, 2}), s.randn({2}), s.randn({2, 2})}, f, "multi_dot: tensor 1 must be a matrix");
  s.error_call({s.randn({2, 2}), s.randn({3, 2})}, f, "multi_dot: tensors 0 and 1 do not fit");
}
void matrix_power_samples(Samples& s) {
  for (const int n : {1, 2, 3, 6, 7})
    s.call({s.randn({2, 3, 3}) * 0.5}, [n](const Tensors& x) { return matrix_power(x[0], n); });
  s.call({s.randn({2, 3, 3})}, [](const Tensors& x) { return matrix_power(x[0], 0); }).differentiable = false;
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return matrix_power(x[0], 2); }, "matrix_power: needs square matrices");
  s.error_call(
      {zeros({2, 2}, {.dtype = f64})}, [](const Tensors& x) { return matrix_power(x[0], -1); }, "inv: a is singular");
}
void cond_samples(Samples& s) {
  for (const double ord : {2.0, -2.0})
    s.call({s.randn({2, 4, 3})}, [ord](const Tensors& x) { return cond(x[0], ord); });
  for (const double ord : {1.0, -1.0, HUGE_VAL, -HUGE_VAL})
    s.call({s.randn({2, 3, 3})}, [ord](const Tensors& x) { return cond(x[0], ord); });
  for (const char* ord : {"fro", "nuc"}) s.call({s.randn({3, 3})}, [ord](const Tensors& x) { return cond(x[0], ord); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return cond(x[0]); }, "cond: needs matrices");
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return cond(x[0], "fro"); }, "inv: needs square matrices");
}
void vander_samples(Samples& s) {
  s.call({s.randn({4})}, [](const Tensors& x) { return vander(x[0]); });
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return vander(x[0], 4, true); });
  s.call({s.integers({4}, -3, 4)}, [](const Tensors& x) { return vander(x[0], 3); });
  s.error_call(
      {s.randn({})}, [](const Tensors& x) { return vander(x[0]); }, "vander: needs at least 1 dimension");
  s.error_call(
      {s.randn({2})}, [](const Tensors& x) { return vander(x[0], -1); }, "vander: n must not be negative");
}

}  // namespace

MANTISSA_OP(MatrixNorm)
MANTISSA_COMPOSITE(multi_dot, multi_dot_samples)
MANTISSA_COMPOSITE(matrix_power, matrix_power_samples)
MANTISSA_COMPOSITE(cond, cond_samples, .halves = false)
MANTISSA_COMPOSITE(vander, vander_samples)

Tensor multi_dot(std::span<const Tensor> tensors) {
  const auto n = static_cast<std::int64_t>(tensors.size());
  check(n >= 2, "multi_dot: needs at least 2 tensors, got ", n);
  std::vector<Tensor> matrices(tensors.begin(), tensors.end());
  const bool row = tensors.front().dim() == 1, column = tensors.back().dim() == 1;
  if (row) matrices.front() = unsqueeze(matrices.front(), 0);
  if (column) matrices.back() = unsqueeze(matrices.back(), 1);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    check(matrices[i].dim() == 2, "multi_dot: tensor ", static_cast<long>(i),
          " must be a matrix, only the first and the last may be vectors; it is ", tensors[i]);
    check(i == 0 || matrices[i - 1].size(1) == matrices[i].size(0), "multi_dot: tensors ", static_cast<long>(i) - 1,
          " and ", static_cast<long>(i), " do not fit: they are ", tensors[i == 0 ? 0 : i - 1], " and ", tensors[i]);
  }
  Tensor y = Chain(matrices).product();
  if (column) y = squeeze(y, 1);
  return row ? squeeze(y, 0) : y;
}

Tensor matrix_power(const Tensor& x, std::int64_t n) {
  check(x.dim() >= 2 && x.size(-1) == x.size(-2), "matrix_power: needs square matrices [..., m, m], got ", x);
  check(x.is_floating(), "matrix_power: needs a floating dtype, got ", x, "; convert with to(f32)");
  if (n < 0) {
    check(n != INT64_MIN, "matrix_power: n is out of range");
    return matrix_power(inv(x), -n);
  }
  if (n == 0) return contiguous(expand(eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()}), x.sizes()));
  if (n == 1) return clone(x);
  Tensor y, square = is_half(x.dtype()) ? cast(x, f32) : x;  // y: the product of the powers x^(2^k) in n so far
  for (;; n /= 2) {
    if (n % 2 == 1) y = y.defined() ? matmul(y, square) : square;
    if (n == 1) return is_half(x.dtype()) ? cast(y, x.dtype()) : y;
    square = matmul(square, square);
  }
}

Tensor matrix_norm(const Tensor& x, double ord, const Dims& dims, bool keepdim) {
  check(ord != 0, "matrix_norm: ord must be \"fro\", \"nuc\" or one of 1, -1, 2, -2, HUGE_VAL, -HUGE_VAL, got 0");
  return apply_composed(MatrixNorm{ord, dims, keepdim}, x);
}
Tensor matrix_norm(const Tensor& x, std::string_view ord, const Dims& dims, bool keepdim) {
  check(ord == "fro" || ord == "nuc", "matrix_norm: ord must be \"fro\", \"nuc\" or a number, got \"", ord, "\"");
  return apply_composed(MatrixNorm{ord == "nuc" ? std::optional(MatrixNorm::nuclear) : std::nullopt, dims, keepdim}, x);
}

Tensor cond(const Tensor& a, double ord) {
  check(a.dim() >= 2 && a.size(-2) > 0 && a.size(-1) > 0, "cond: needs matrices [..., m, n] with elements, got ", a);
  if (std::abs(ord) != 2) return matrix_norm(a, ord) * matrix_norm(inv(a), ord);
  const Tensor s = svdvals(a), largest = select(s, -1, 0), smallest = select(s, -1, -1);
  return ord > 0 ? largest / smallest : smallest / largest;
}
Tensor cond(const Tensor& a, std::string_view ord) { return matrix_norm(a, ord) * matrix_norm(inv(a), ord); }

Tensor vander(const Tensor& x, std::optional<std::int64_t> n, bool increasing) {
  check(x.dim() >= 1, "vander: needs at least 1 dimension, got ", x);
  const std::int64_t count = n.value_or(x.size(-1));
  check(count >= 0, "vander: n must not be negative, got ", count);
  const Tensor base = x.is_floating() ? x : cast(x, i64);
  Dims sizes = x.sizes(), first = sizes;
  sizes.push_back(count);
  first.push_back(1);
  const TensorOptions like{.dtype = base.dtype(), .device = x.device()};
  if (count == 0) return zeros(sizes, like);
  sizes.back() = count - 1;
  Tensor y = ones(first, like);
  if (count > 1) y = cat({y, cumprod(expand(unsqueeze(base, -1), sizes), -1)}, -1);
  return increasing ? y : flip(y, {-1});
}

}  // namespace mantissa
