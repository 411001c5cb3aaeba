// Diagonals and triangles of matrices: diagonal, trace, diag, diag_embed, diagflat, tril, triu.
#include <algorithm>

#include "core/ops_special.h"
#include "ops/compose.h"
#include "ops/length.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(triangle, const View& y, const View& x, std::int64_t diagonal, bool upper)

namespace {

struct Diagonal {
  static constexpr auto name = "diagonal";
  static constexpr const char* args[] = {"x"};
  std::int64_t offset = 0;
  int dim1 = 0, dim2 = 1;

  // The diagonal as a view: its sizes, strides and offset `start`.
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
    return x.raw_view(sizes, strides, start);
  }
  // Zeros with x on the diagonal.
  void put(const View& y, const View& x) const {
    kernels::fill(y.device, y, 0.0);
    View part = y;
    part.sizes = part.strides = Dims{};
    std::int64_t start;
    locate(y.sizes, y.strides, part.sizes, part.strides, start);
    part.data = y.as<char>() + start * static_cast<std::int64_t>(size_of(y.dtype));
    if (x.numel() > 0) kernels::copy(y.device, part, x);
  }
  static constexpr auto vjp();
  void onnx(OnnxCall& c) const {  // merges the two dims and picks the diagonal's indices
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
  void run(const View& y, const View& g) const { of.put(y, g); }
  static constexpr auto vjp() {
    return rules([](const DiagonalBackward& op, Grad g) { return diagonal(g, op.of.offset, op.of.dim1, op.of.dim2); });
  }
  static void samples(Samples& s) { s({s.randn({2, 3})}, DiagonalBackward{{1, 0, 2}, {3, 2, 4}}); }
};

constexpr auto Diagonal::vjp() {
  return rules([](const Diagonal& op, Grad g, Shape<0> x) { return apply(DiagonalBackward{op, x.sizes}, g); });
}

struct DiagEmbed {
  static constexpr auto name = "diag_embed";
  static constexpr const char* args[] = {"x"};
  std::int64_t offset = 0;

  std::int64_t right() const { return std::max<std::int64_t>(offset, 0); }
  std::int64_t down() const { return std::max<std::int64_t>(-offset, 0); }
  Spec infer(const Tensor& x) const {
    check(x.dim() >= 1, "needs at least 1 dimension");
    check_length("diag_embed", "the offset", offset);
    Dims sizes = x.sizes();
    sizes.back() += right() + down();
    sizes.push_back(sizes.back());
    return like(x, sizes);
  }
  void run(const View& y, const View& x) const { Diagonal{offset, -2, -1}.put(y, x); }
  static constexpr auto vjp() {
    return rules([](const DiagEmbed& op, Grad g) { return diagonal(g, op.offset, -2, -1); });
  }
  static Tensor reference(const DiagEmbed& op, const Tensor& x) {
    const std::int64_t n = x.size(-1);
    Dims sizes = x.sizes(), each = x.sizes();
    sizes.push_back(n + op.right() + op.down());
    each.push_back(1);
    const Tensor column = reshape(slice(arange(op.right() + n, {.device = x.device()}), 0, op.right()), {n, 1});
    const Tensor rows =
        scatter(zeros(sizes, {.dtype = x.dtype(), .device = x.device()}), -1, expand(column, each), unsqueeze(x, -1));
    return pad(rows, {0, 0, op.down(), op.right()});
  }
  static void samples(Samples& s) {
    s({s.randn({2, 3})}, DiagEmbed{});
    s({s.randn({2, 3})}, DiagEmbed{1});
    s({s.randn({3})}, DiagEmbed{-2});
    s({s.randn({0})}, DiagEmbed{});
    s({s.integers({2, 3}, 1, 9)}, DiagEmbed{});
    s.error({s.randn({3})}, DiagEmbed{INT64_MIN}, "the offset -9");
    s.error({s.randn({})}, DiagEmbed{}, "at least 1 dimension");
  }
};

// tril and triu.
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

}  // namespace

MANTISSA_OP(Diagonal)
MANTISSA_OP(DiagonalBackward)
MANTISSA_OP(DiagEmbed)

Tensor diagonal(const Tensor& x, std::int64_t offset, int dim1, int dim2) {
  return apply(Diagonal{offset, dim1, dim2}, x);
}
Tensor trace(const Tensor& x) {
  check(x.dim() == 2, "trace: needs a matrix, got ", x);
  const Composite in("trace", CastPolicy::keep, {&x});
  return in.result(sum(diagonal(in[0])));
}
Tensor diag_embed(const Tensor& x, std::int64_t offset) { return apply(DiagEmbed{offset}, x); }
Tensor diag(const Tensor& x, std::int64_t k) {
  check(x.dim() == 1 || x.dim() == 2, "diag: needs a vector or a matrix, got ", x);
  return x.dim() == 1 ? diag_embed(x, k) : clone(diagonal(x, k));
}
Tensor diagflat(const Tensor& x, std::int64_t offset) { return diag(flatten(x), offset); }
Tensor tril(const Tensor& x, std::int64_t diagonal) {
  check(x.dim() >= 2, "tril: needs at least 2 dimensions, got ", x);
  return apply(Triangle<false>{diagonal}, x);
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  check(x.dim() >= 2, "triu: needs at least 2 dimensions, got ", x);
  return apply(Triangle<true>{diagonal}, x);
}

namespace {

void trace_samples(Samples& s) {
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return trace(x[0]); });
  s.error_call(
      {s.randn({2, 2, 2})}, [](const Tensors& x) { return trace(x[0]); }, "trace: needs a matrix");
}
void diag_samples(Samples& s) {
  s.call({s.randn({3})}, [](const Tensors& x) { return diag(x[0], 1); });
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return diag(x[0], -1); });
  s.error_call(
      {s.randn({2, 2, 2})}, [](const Tensors& x) { return diag(x[0]); }, "needs a vector or a matrix");
}
void diagflat_samples(Samples& s) {
  s.call({s.randn({2, 2})}, [](const Tensors& x) { return diagflat(x[0], -1); });
}
template <class F> void triangle_samples(Samples& s, F f) {
  for (const int diagonal : {0, 1, -2})
    s.call({s.randn({2, 3, 4})}, [f, diagonal](const Tensors& x) { return f(x[0], diagonal); });
  s.call({s.integers({3, 3}, 1, 9)}, [f](const Tensors& x) { return f(x[0], 0); });
  s.error_call(
      {s.randn({3})}, [f](const Tensors& x) { return f(x[0], 0); }, "needs at least 2 dimensions");
}
void tril_samples(Samples& s) { triangle_samples(s, [](const Tensor& x, std::int64_t d) { return tril(x, d); }); }
void triu_samples(Samples& s) { triangle_samples(s, [](const Tensor& x, std::int64_t d) { return triu(x, d); }); }
MANTISSA_COMPOSITE(trace, trace_samples, .has_policy = true)
MANTISSA_COMPOSITE(diag, diag_samples)
MANTISSA_COMPOSITE(diagflat, diagflat_samples)
MANTISSA_COMPOSITE(tril, tril_samples)
MANTISSA_COMPOSITE(triu, triu_samples)

}  // namespace
}  // namespace mantissa
