// Products and distances made of matmul, broadcasting and views: diag, inner, tensordot, kron, cross,
// cdist, bilinear. Read first: ops/linalg.cpp.
#include <cmath>
#include <limits>

#include "core/context.h"
#include "ops/compose.h"
#include "ops/device_table.h"

namespace mantissa {
namespace {

struct Cross {
  static constexpr auto name = "cross";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = CastPolicy::promote;
  static constexpr bool differentiable = true;
  int dim = -1;
  static Tensor compose(const Cross& op, const Tensor& a, const Tensor& b) {
    const Dims sizes = broadcast(a.sizes(), b.sizes());
    const int d = wrap_dim(op.dim, sizes.rank());
    check(sizes.rank() > 0 && sizes[d] == 3, "dim ", op.dim, " must have size 3, the shapes broadcast to ", sizes);
    const Tensor x = expand(a, sizes), y = expand(b, sizes);
    const Dims one{1}, two{2}, dims{d};
    return roll(x, two, dims) * roll(y, one, dims) - roll(x, one, dims) * roll(y, two, dims);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({2, 3}), s.randn({2, 3})}, Cross{});
    composed(s, {s.randn({3, 4}), s.randn({3, 1})}, Cross{0});
    composed_error(s, {s.randn({2, 4}), s.randn({2, 4})}, Cross{}, "dim -1 must have size 3");
  }
};

// Squared distances of many points as |a|^2 + |b|^2 - 2 a.b, as PyTorch has them beyond 25 points.
struct Cdist {
  static constexpr auto name = "cdist";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  double p = 2;
  static Tensor compose(const Cdist& op, const Tensor& a, const Tensor& b) {
    check(a.is_floating() && b.is_floating(), "needs floating dtypes; convert with to(f32)");
    check(a.dim() >= 2 && b.dim() >= 2, "a and b need at least 2 dimensions, [..., points, size]");
    check(a.size(-1) == b.size(-1), "points have ", a.size(-1), " and ", b.size(-1), " coordinates");
    check(op.p >= 0, "p must be at least 0, got ", op.p);
    constexpr std::int64_t few = 25;
    if (op.p != 2 || (a.size(-2) <= few && b.size(-2) <= few))
      return norm(unsqueeze(a, -2) - unsqueeze(b, -3), op.p, {-1});
    // one product: [-2a, |a|^2, 1] by [b, 1, |b|^2]
    const Tensor a2 = sum(square(a), {-1}, true), b2 = sum(square(b), {-1}, true);
    const Tensor squared = matmul(cat({a * -2.0, a2, ones_like(a2)}, -1), transpose(cat({b, ones_like(b2), b2}, -1)));
    // Backward, a distance of 0 has the gradient 0.
    if (!context().grad_enabled || !squared.requires_grad()) return sqrt(clamp_min(squared, 0));
    const Tensor none = le(squared, Tensor(0.0));
    return where(none, Tensor(0.0), sqrt(where(none, Tensor(1.0), squared)));
  }
  static void samples(Samples& s) {
    for (const double p : {2.0, 1.0, 3.0}) composed(s, {s.randn({2, 4, 3}), s.randn({5, 3})}, Cdist{p});
    composed(s, {s.distinct({3, 2}), s.distinct({4, 2}) + 9.0}, Cdist{HUGE_VAL});
    composed(s, {s.randn({30, 2}), s.randn({2, 2})}, Cdist{}).differentiable = true;
    composed_error(s, {s.randn({3, 2}), s.randn({4, 3})}, Cdist{}, "points have 2 and 3 coordinates");
    composed_error(s, {s.randn({3}), s.randn({4, 3})}, Cdist{}, "at least 2 dimensions");
    composed_error(s, {s.randn({3, 2}), s.randn({4, 2})}, Cdist{-1}, "p must be at least 0, got -1");
  }
};

struct Normalize {
  static constexpr auto name = "normalize";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  double p = 2;
  Dims dims{1};
  double eps = 1e-12;
  static Tensor compose(const Normalize& op, const Tensor& x) {
    return x / clamp_min(norm(x, op.p, op.dims, true), op.eps);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 4})}, Normalize{});
    composed(s, {s.randn({2, 3, 2})}, Normalize{1, {0, 2}});
    composed(s, {zeros({2, 3}, {.dtype = f64})}, Normalize{}).extreme = true;
    composed_error(s, {s.randn({3})}, Normalize{}, "dim 1 is out of range for 1 dimensions");
    composed_error(s, {s.integers({3, 3}, 0, 3)}, Normalize{}, "needs a floating dtype");
  }
};

struct Bilinear {
  static constexpr auto name = "bilinear";
  static constexpr const char* args[] = {"x1", "x2", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::promote;
  static constexpr bool differentiable = true;
  static Tensor compose(const Bilinear&, const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
    check(weight.dim() == 3, "weight must be [out, in1, in2]");
    const std::int64_t out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
    check(x1.dim() >= 1 && x1.dim() == x2.dim() && x1.size(-1) == in1 && x2.size(-1) == in2, "x1 must end in ", in1,
          " and x2 in ", in2, ", with as many dimensions");
    Dims sizes = x1.sizes();
    for (int d = 0; d + 1 < x1.dim(); ++d) check(sizes[d] == x2.sizes()[d], "x1 and x2 differ in dimension ", d);
    sizes.back() = out;
    const std::int64_t rows = numel_of(x1.sizes()) / std::max<std::int64_t>(in1, 1);
    const Tensor first = matmul(reshape(x1, {rows, in1}), reshape(permute(weight, {1, 0, 2}), {in1, out * in2}));
    const Tensor y = sum(reshape(first, {rows, out, in2}) * reshape(x2, {rows, 1, in2}), {2});
    if (bias.defined()) check(bias.sizes() == Dims{out}, "bias must be [", out, "]");
    return reshape(bias.defined() ? y + bias : y, sizes);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({4, 2}), s.randn({4, 3}), s.randn({5, 2, 3}), s.randn({5})}, Bilinear{});
    composed(s, {s.randn({2, 3, 2}), s.randn({2, 3, 2}), s.randn({1, 2, 2}), Tensor()}, Bilinear{});
    composed_error(s, {s.randn({4, 2}), s.randn({4, 2}), s.randn({5, 2, 3}), Tensor()}, Bilinear{},
                   "x1 must end in 2 and x2 in 3");
    composed_error(s, {s.randn({4, 2}), s.randn({3, 3}), s.randn({5, 2, 3}), Tensor()}, Bilinear{},
                   "differ in dimension 0");
    composed_error(s, {s.randn({4, 2}), s.randn({4, 3}), s.randn({5, 2, 3}), s.randn({4})}, Bilinear{},
                   "bias must be [5]");
  }
};

}  // namespace

MANTISSA_OP(Cross)
MANTISSA_OP(Cdist)
MANTISSA_OP(Normalize)
MANTISSA_OP(Bilinear)

Tensor cross(const Tensor& a, const Tensor& b, int dim) { return apply_composed(Cross{dim}, a, b); }
Tensor cdist(const Tensor& a, const Tensor& b, double p) { return apply_composed(Cdist{p}, a, b); }
Tensor normalize(const Tensor& x, double p, const Dims& dims, double eps) {
  return apply_composed(Normalize{p, dims, eps}, x);
}
Tensor pdist(const Tensor& x, double p) {
  check(x.dim() == 2, "pdist: x must be [points, size], got ", x);
  const std::int64_t n = x.size(0);
  const Tensor pairs = triu_indices(n, n, 1).to(x.device());
  return norm(index_select(x, 0, select(pairs, 0, 0)) - index_select(x, 0, select(pairs, 0, 1)), p, {1});
}
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  return apply_composed(Bilinear{}, x1, x2, weight, bias);
}

Tensor diag_embed(const Tensor& x, std::int64_t offset) {
  check(x.dim() >= 1, "diag_embed: needs at least 1 dimension, got ", x);
  const std::int64_t n = x.size(-1), right = std::max<std::int64_t>(offset, 0),
                     down = std::max<std::int64_t>(-offset, 0);
  Dims sizes = x.sizes(), each = x.sizes();
  sizes.push_back(n + right + down);
  each.push_back(1);
  const Tensor column = reshape(slice(device_range(right + n, x.device()), 0, right), {n, 1});
  const Tensor rows =
      scatter(zeros(sizes, {.dtype = x.dtype(), .device = x.device()}), -1, expand(column, each), unsqueeze(x, -1));
  return pad(rows, {0, 0, down, right});
}
Tensor diag(const Tensor& x, std::int64_t k) {
  check(x.dim() == 1 || x.dim() == 2, "diag: needs a vector or a matrix, got ", x);
  return x.dim() == 1 ? diag_embed(x, k) : clone(diagonal(x, k));
}
Tensor inner(const Tensor& a, const Tensor& b) {
  if (a.dim() == 0 || b.dim() == 0) return a * b;
  check(a.size(-1) == b.size(-1), "inner: the last dimensions of ", a, " and ", b, " differ");
  Dims sizes;
  for (const Tensor* t : {&a, &b}) for (int d = 0; d + 1 < t->dim(); ++d) sizes.push_back(t->sizes()[d]);
  const std::int64_t n = a.size(-1);
  std::int64_t rows = 1, columns = 1;  // not numel / n: n may be 0, and the sums over nothing are zeros
  for (int d = 0; d + 1 < a.dim(); ++d) rows *= a.sizes()[d];
  for (int d = 0; d + 1 < b.dim(); ++d) columns *= b.sizes()[d];
  return reshape(matmul(reshape(a, {rows, n}), transpose(reshape(b, {columns, n}))), sizes);
}
Tensor tensordot(const Tensor& a, const Tensor& b, int dims) {
  check(dims >= 0 && dims <= a.dim() && dims <= b.dim(), "tensordot: cannot contract ", dims, " dimensions of ", a,
        " and ", b);
  Dims sizes;
  std::int64_t rows = 1, n = 1, columns = 1;
  for (int d = 0; d < a.dim() - dims; ++d) sizes.push_back(a.sizes()[d]), rows *= a.sizes()[d];
  for (int d = 0; d < dims; ++d) {
    check(a.sizes()[a.dim() - dims + d] == b.sizes()[d], "tensordot: contracted dimensions of ", a, " and ", b,
          " differ");
    n *= b.sizes()[d];
  }
  for (int d = dims; d < b.dim(); ++d) sizes.push_back(b.sizes()[d]), columns *= b.sizes()[d];
  return reshape(matmul(reshape(a, {rows, n}), reshape(b, {n, columns})), sizes);
}
Tensor kron(const Tensor& a, const Tensor& b) {
  const int rank = std::max(a.dim(), b.dim());
  check(2 * rank <= Dims::max_rank, "kron: at most ", Dims::max_rank / 2, " dimensions, got ", a, " and ", b);
  Dims left, right, sizes;
  for (int d = 0; d < rank; ++d) {
    const int i = d - (rank - a.dim()), j = d - (rank - b.dim());
    const std::int64_t m = i < 0 ? 1 : a.sizes()[i], n = j < 0 ? 1 : b.sizes()[j];
    left.push_back(m), left.push_back(1);
    right.push_back(1), right.push_back(n);
    sizes.push_back(m * n);
  }
  return reshape(reshape(a, left) * reshape(b, right), sizes);
}

namespace {

void pdist_samples(Samples& s) {
  s.call({s.randn({4, 3})}, [](const Tensors& x) { return pdist(x[0]); });
  s.call({s.randn({3, 2})}, [](const Tensors& x) { return pdist(x[0], 1); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return pdist(x[0]); }, "x must be [points, size]");
}
void diag_samples(Samples& s) {
  s.call({s.randn({3})}, [](const Tensors& x) { return diag(x[0], 1); });
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return diag(x[0], -1); });
  s.error_call(
      {s.randn({2, 2, 2})}, [](const Tensors& x) { return diag(x[0]); }, "needs a vector or a matrix");
}
void diag_embed_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return diag_embed(x[0]); });
  s.call({s.randn({3})}, [](const Tensors& x) { return diag_embed(x[0], -2); });
  s.error_call(
      {s.randn({})}, [](const Tensors& x) { return diag_embed(x[0]); }, "at least 1 dimension");
}
void inner_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return inner(x[0], x[1]); };
  s.call({s.randn({2, 3}), s.randn({4, 3})}, f);
  s.call({s.randn({3}), s.randn({})}, f);
  s.error_call({s.randn({2, 3}), s.randn({3, 2})}, f, "the last dimensions of");
}
void tensordot_samples(Samples& s) {
  s.call({s.randn({2, 3, 4}), s.randn({3, 4, 2})}, [](const Tensors& x) { return tensordot(x[0], x[1]); });
  s.call({s.randn({2}), s.randn({3})}, [](const Tensors& x) { return tensordot(x[0], x[1], 0); });
  s.error_call(
      {s.randn({2, 3}), s.randn({2, 3})}, [](const Tensors& x) { return tensordot(x[0], x[1], 1); },
      "contracted dimensions");
  s.error_call(
      {s.randn({2}), s.randn({2})}, [](const Tensors& x) { return tensordot(x[0], x[1]); },
      "cannot contract 2 dimensions");
}
void kron_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return kron(x[0], x[1]); };
  s.call({s.randn({2, 3}), s.randn({3, 2})}, f);
  s.call({s.randn({2}), s.randn({2, 2})}, f);
  s.error_call({s.randn({1, 1, 1, 1, 1}), s.randn({2})}, f, "at most 4 dimensions");
}
MANTISSA_COMPOSITE(pdist, pdist_samples)
MANTISSA_COMPOSITE(diag, diag_samples)
MANTISSA_COMPOSITE(diag_embed, diag_embed_samples)
MANTISSA_COMPOSITE(inner, inner_samples)
MANTISSA_COMPOSITE(tensordot, tensordot_samples)
MANTISSA_COMPOSITE(kron, kron_samples)

}  // namespace
}  // namespace mantissa
