// Linear algebra made of matmul (bmm, mv, dot, ...), and diagonals. Next: ops/matmul.cpp, ops/einsum.cpp.
#include <algorithm>

#include "core/ops.h"
#include "ops/compose.h"
#include "ops/device_table.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(triangle, const View& y, const View& x, std::int64_t diagonal, bool upper)

namespace {

struct Dot {
  static constexpr auto name = "dot";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = CastPolicy::promote;
  static constexpr bool differentiable = true;

  static Tensor compose(const Dot&, const Tensor& a, const Tensor& b) {
    check(a.dim() == 1 && b.dim() == 1, "needs two vectors, got ", a, " and ", b);
    check(a.numel() == b.numel(), "lengths ", a.numel(), " and ", b.numel(), " differ");
    check(a.dtype() == b.dtype(), "dtypes ", a.dtype(), " and ", b.dtype(), " differ; cast one of them");
    return a.is_floating() ? matmul(a, b) : cast(sum(a * b), a.dtype());
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({5}), s.randn({5})}, Dot{});
    composed(s, {s.randn({0}), s.randn({0})}, Dot{});
    composed(s, {s.integers({5}, 0, 9), s.integers({5}, 0, 9)}, Dot{});
    composed_error(s, {s.randn({2}), s.randn({3})}, Dot{}, "lengths 2 and 3 differ");
    composed_error(s, {s.randn({2, 2}), s.randn({2})}, Dot{}, "needs two vectors");
  }
};

// --- diagonals ---
struct Diagonal {
  static constexpr auto name = "diagonal";
  static constexpr const char* args[] = {"x"};
  std::int64_t offset = 0;
  int dim1 = 0, dim2 = 1;

  // The diagonal as a view of what lies at `data` offset `start`.
  void locate(const Dims& x, const Dims& x_strides, Dims& sizes, Dims& strides, std::int64_t& start) const {
    check(x.rank() >= 2, "needs at least 2 dimensions");
    const int a = wrap_dim(dim1, x.rank()), b = wrap_dim(dim2, x.rank());
    check(a != b, "dim1 and dim2 are both ", a);
    for (int d = 0; d < x.rank(); ++d) {
      if (d == a || d == b) continue;
      sizes.push_back(x[d]);
      strides.push_back(x_strides[d]);
    }
    const bool above = offset >= 0;  // compared before it is added: an offset may be huge
    const std::int64_t skipped = above ? offset : -(offset + 1);
    std::int64_t length = 0;
    if (above && skipped < x[b]) length = std::min(x[a], x[b] - skipped);
    if (!above && skipped < x[a]) length = std::max<std::int64_t>(0, std::min(x[a] - skipped - 1, x[b]));
    start = length == 0 ? 0 : above ? offset * x_strides[b] : -offset * x_strides[a];
    sizes.push_back(length);
    strides.push_back(x_strides[a] + x_strides[b]);
  }
  Tensor view(const Tensor& x) const {
    Dims sizes, strides;
    std::int64_t start;
    locate(x.sizes(), x.strides(), sizes, strides, start);
    return x.as_strided(sizes, strides, start);
  }
  static constexpr auto vjp();
  void onnx(OnnxCall& c) const {  // the two dims as one, from which the places are picked
    const Dims& x = c.x(0).sizes();
    const int a = wrap_dim(dim1, x.rank()), b = wrap_dim(dim2, x.rank());
    std::vector<std::int64_t> order, flat, places;
    for (int d = 0; d < x.rank(); ++d)
      if (d != a && d != b) order.push_back(d), flat.push_back(x[d]);
    order.push_back(a), order.push_back(b), flat.push_back(x[a] * x[b]);
    for (std::int64_t i = 0; i < c.y().sizes().back(); ++i)
      places.push_back((i + std::max<std::int64_t>(-offset, 0)) * x[b] + i + std::max<std::int64_t>(offset, 0));
    const OnnxId turned = c.node("Transpose", {c.in(0)}, {{"perm", order}});
    const OnnxId lines = c.node("Reshape", {turned, c.ints(flat)});
    c.result(c.node("Gather", {lines, c.ints(places)}, {{"axis", x.rank() - 2}}));
  }
  static void samples(Samples& s) {
    s({s.randn({3, 4})}, Diagonal{});
    s({s.randn({3, 4})}, Diagonal{1});
    s({s.randn({3, 4})}, Diagonal{-2});
    s({s.randn({3, 4})}, Diagonal{9});
    s({s.randn({2, 3, 4})}, Diagonal{0, -1, 0});
    s.error({s.randn({3})}, Diagonal{}, "needs at least 2 dimensions");
    s.error({s.randn({3, 3})}, Diagonal{0, 1, -1}, "dim1 and dim2 are both 1");
    s.error({s.randn({3, 3})}, Diagonal{0, 0, 2}, "dim 2 is out of range");
  }
};

struct DiagonalBackward {  // zeros with g on the diagonal
  static constexpr auto name = "diagonal_backward";
  static constexpr const char* args[] = {"gradient"};
  Diagonal of;
  Dims sizes;

  Spec infer(const Tensor& g) const { return like(g, sizes); }
  void run(const View& y, const View& g) const {
    kernels::fill(y.device, y, 0.0);
    View part = y;
    part.sizes = part.strides = Dims{};
    std::int64_t start;
    of.locate(y.sizes, y.strides, part.sizes, part.strides, start);
    part.data = y.as<char>() + start * static_cast<std::int64_t>(size_of(y.dtype));
    if (g.numel() > 0) kernels::copy(y.device, part, g);
  }
  static constexpr auto vjp() {
    return rules([](const DiagonalBackward& op, Grad g) { return diagonal(g, op.of.offset, op.of.dim1, op.of.dim2); });
  }
  static void samples(Samples& s) { s({s.randn({2, 3})}, DiagonalBackward{{1, 0, 2}, {3, 2, 4}}); }
};
constexpr auto Diagonal::vjp() {
  return rules([](const Diagonal& op, Grad g, Shape<0> x) { return apply(DiagonalBackward{op, x.sizes}, g); });
}

// tril and triu on the CPU: one pass.
template <bool upper>
struct Triangle {
  static constexpr auto name = upper ? "triu" : "tril";
  static constexpr const char* args[] = {"x"};
  std::int64_t diagonal;

  Spec infer(const Tensor& x) const { return like(x); }
  void run(const View& y, const View& x) const { kernels::triangle(x.device, y, x, diagonal, upper); }
  static constexpr auto vjp() {
    return rules([](const Triangle& op, Grad g) { return upper ? triu(g, op.diagonal) : tril(g, op.diagonal); });
  }
  void onnx(OnnxCall& c) const {
    c.result(c.node("Trilu", {c.in(0), c.number(static_cast<double>(diagonal), i64)}, {{"upper", upper ? 1 : 0}}));
  }
};

// True where row + diagonal >= column, for the last two dimensions.
Tensor triangle(const Tensor& x, std::int64_t diagonal) {
  const TensorOptions options{.dtype = i64, .device = x.device()};
  const Tensor rows = unsqueeze(device_range(x.size(-2), x.device()), 1);
  return ge(rows + full({}, static_cast<double>(diagonal), options), device_range(x.size(-1), x.device()));
}
Tensor zero_like_number(const Tensor& x) { return full({}, 0, {.dtype = x.dtype(), .device = x.device()}); }

// --- samples of what is made of matmul and where ---
template <class F>
void pair_samples(Samples& s, const Dims& a, const Dims& b, const Dims& wrong, const char* fragment, F f) {
  const auto call = [f](const Tensors& x) { return f(x[0], x[1]); };
  s.call({s.randn(a), s.randn(b)}, call);
  s.error_call({s.randn(a), s.randn(wrong)}, call, fragment);
}
void bmm_samples(Samples& s) {
  pair_samples(s, {2, 3, 4}, {2, 4, 5}, {1, 4, 5}, "bmm: batches 2 and 1 differ", bmm);
  pair_samples(s, {2, 3, 4}, {2, 4, 1}, {4, 5}, "bmm: needs two batches of matrices", bmm);
}
void mv_samples(Samples& s) { pair_samples(s, {3, 4}, {4}, {4, 1}, "mv: needs a matrix and a vector", mv); }
void outer_samples(Samples& s) { pair_samples(s, {3}, {4}, {4, 1}, "outer: needs two vectors", outer); }
template <class F> void triangle_samples(Samples& s, F f) {
  for (const int diagonal : {0, 1, -2})
    s.call({s.randn({2, 3, 4})}, [f, diagonal](const Tensors& x) { return f(x[0], diagonal); });
  s.call({s.integers({3, 3}, 1, 9)}, [f](const Tensors& x) { return f(x[0], 0); });
  s.error_call(
      {s.randn({3})}, [f](const Tensors& x) { return f(x[0], 0); }, "needs at least 2 dimensions");
}
void tril_samples(Samples& s) { triangle_samples(s, [](const Tensor& x, std::int64_t d) { return tril(x, d); }); }
void triu_samples(Samples& s) { triangle_samples(s, [](const Tensor& x, std::int64_t d) { return triu(x, d); }); }
void trace_samples(Samples& s) {
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return trace(x[0]); });
  s.error_call(
      {s.randn({2, 2, 2})}, [](const Tensors& x) { return trace(x[0]); }, "trace: needs a matrix");
}

}  // namespace

MANTISSA_OP(Dot)
MANTISSA_OP(Diagonal)
MANTISSA_OP(DiagonalBackward)
MANTISSA_COMPOSITE(bmm, bmm_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(mv, mv_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(outer, outer_samples)
MANTISSA_COMPOSITE(tril, tril_samples)
MANTISSA_COMPOSITE(triu, triu_samples)
MANTISSA_COMPOSITE(trace, trace_samples, .has_policy = true)

Tensor bmm(const Tensor& a, const Tensor& b) {
  check(a.dim() == 3 && b.dim() == 3, "bmm: needs two batches of matrices, got ", a, " and ", b);
  check(a.size(0) == b.size(0), "bmm: batches ", a.size(0), " and ", b.size(0), " differ");
  const Composite in("bmm", CastPolicy::lower, {&a, &b});
  return in.result(matmul(in[0], in[1]));
}
Tensor mv(const Tensor& a, const Tensor& b) {
  check(a.dim() == 2 && b.dim() == 1, "mv: needs a matrix and a vector, got ", a, " and ", b);
  const Composite in("mv", CastPolicy::lower, {&a, &b});
  return in.result(matmul(in[0], in[1]));
}
Tensor outer(const Tensor& a, const Tensor& b) {
  check(a.dim() == 1 && b.dim() == 1, "outer: needs two vectors, got ", a, " and ", b);
  return unsqueeze(a, 1) * b;
}
Tensor dot(const Tensor& a, const Tensor& b) { return apply_composed(Dot{}, a, b); }
Tensor diagonal(const Tensor& x, std::int64_t offset, int dim1, int dim2) {
  return apply(Diagonal{offset, dim1, dim2}, x);
}
Tensor trace(const Tensor& x) {
  check(x.dim() == 2, "trace: needs a matrix, got ", x);
  const Composite in("trace", CastPolicy::keep, {&x});
  return in.result(sum(diagonal(in[0])));
}
Tensor tril(const Tensor& x, std::int64_t diagonal) {
  check(x.dim() >= 2, "tril: needs at least 2 dimensions, got ", x);
  if (x.device().is_cpu()) return apply(Triangle<false>{diagonal}, x);
  return where(triangle(x, diagonal), x, zero_like_number(x));
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  check(x.dim() >= 2, "triu: needs at least 2 dimensions, got ", x);
  if (x.device().is_cpu()) return apply(Triangle<true>{diagonal}, x);
  return where(triangle(x, diagonal - 1), zero_like_number(x), x);
}

}  // namespace mantissa
