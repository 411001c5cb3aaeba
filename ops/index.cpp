// Operators that select elements by index: gather, scatter_add, embedding. Indices are i64; the kernels that read them
// check their range and read nothing outside. Gradients are accumulated in a fixed order; an embedding table's is
// written directly into the parameter's gradient (autograd/place.h).
#include "ops/index.h"

#include "autograd/place.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/at_least_1d.h"
#include "ops/registry.h"

namespace mantissa {

// Out-of-range indices throw "index 7 is out of range for a dimension of size 5", in all kernels with indices.
MANTISSA_KERNEL(gather, const View& y, const View& x, int dim, const View& index)
// y[.., index, ..] += source along dim.
MANTISSA_KERNEL(scatter_add, const View& y, int dim, const View& index, const View& source)
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)

namespace {

// scatter_add into zeros of x's shape.
Tensor sums_by_index(const Shape<0>& x, int dim, const Tensor& index, const Tensor& g);

struct Gather {
  static constexpr auto name = "gather";
  static constexpr const char* args[] = {"x", "index"};
  int dim;

  Spec infer(const Tensor& x, const Tensor& index) const {
    check_index_shape(x, wrap_dim(dim, x.dim()), index, "x");
    return like(x, index.sizes());
  }
  void run(const View& y, const View& x, const View& index) const {
    const int d = wrap_dim(dim, x.dim());
    kernels::gather(y.device, at_least_1d(y), at_least_1d(x), d, at_least_1d(index));
  }
  static constexpr auto vjp() {
    return rules([](const Gather& op, Grad g, Shape<0> x, In<1> index) { return sums_by_index(x, op.dim, index, g); });
  }
  void onnx(OnnxCall& c) const { c.result(c.node("GatherElements", {c.in(0), c.in(1)}, {c.axis(dim)})); }
  static void samples(Samples& s) {
    s({s.randn({3, 4}), s.integers({3, 2}, 0, 4)}, Gather{1});
    s({s.randn({3, 4}), s.integers({5, 4}, 0, 3)}, Gather{0});
    s({s.randn({2, 3, 4}), s.integers({2, 1, 4}, 0, 3)}, Gather{-2});
    s({s.randn({}), s.integers({}, 0, 1)}, Gather{0});
    s({s.randn({3, 4}), s.integers({0, 4}, 0, 3)}, Gather{0});
    s.error({s.randn({3, 4}), s.integers({3, 2}, 7, 8)}, Gather{1},
            "index 7 is out of range for a dimension of size 4");
    s.error({s.randn({3, 4}), s.integers({3}, 0, 3)}, Gather{1}, "the index has 1 dimensions");
    s.error({s.randn({3, 4}), s.randn({3, 4})}, Gather{1}, "the index must be i64");
  }
};

struct ScatterAdd {
  static constexpr auto name = "scatter_add";
  static constexpr const char* args[] = {"x", "index", "source"};
  static constexpr auto autocast = CastPolicy::promote;
  int dim;

  Spec infer(const Tensor& x, const Tensor& index, const Tensor& source) const {
    const int d = wrap_dim(dim, x.dim());
    check_index_shape(x, d, index, "x");
    check_index_shape(source, -1, index, "the source");
    check(source.dtype() == x.dtype(), "the source is ", source.dtype(), " and x ", x.dtype(), "; cast one with to()");
    return like(x);
  }
  void run(const View& y, const View& x, const View& index, const View& source) const {
    const int d = wrap_dim(dim, x.dim());
    if (y.data != x.data) kernels::copy(y.device, y, x);
    kernels::scatter_add(y.device, at_least_1d(y), d, at_least_1d(index), at_least_1d(source));
  }
  static constexpr auto vjp() {
    return rules([](Grad g) -> Tensor { return g; }, no_gradient,
                 [](const ScatterAdd& op, Grad g, In<1> index, Shape<2> source) {
                   Tensor picked = gather(g, op.dim, index);
                   if (picked.sizes() == source.sizes) return picked;
                   for (int d = 0; d < picked.dim() && context().create_graph; ++d) {
                     Dims missing = picked.sizes();
                     missing[d] = source.sizes[d] - missing[d];
                     const TensorOptions o{.dtype = g.dtype(), .device = g.device()};
                     if (missing[d] > 0) picked = cat({picked, zeros(missing, o)}, d);
                   }
                   if (context().create_graph) return picked;
                   Tensor full = zeros(source.sizes, {.dtype = g.dtype(), .device = g.device()});
                   Tensor part = full.raw_view(picked.sizes(), full.strides());
                   part.copy_(picked);
                   return full;
                 });
  }
  void onnx(OnnxCall& c) const {
    if (c.x(1).sizes() != c.x(2).sizes()) c.refuse("the source must be as large as the index");
    c.result(c.node("ScatterElements", {c.in(0), c.in(1), c.in(2)}, {c.axis(dim), {"reduction", "add"}}));
  }
  static void samples(Samples& s) {
    s({s.randn({3, 4}), s.integers({3, 6}, 0, 4), s.randn({3, 6})}, ScatterAdd{1});
    s({s.randn({3, 4}), s.integers({5, 4}, 0, 3), s.randn({5, 4})}, ScatterAdd{0});
    s({s.randn({4}), s.integers({0}, 0, 3), s.randn({0})}, ScatterAdd{0});
    s.error({s.randn({3}), s.integers({2}, -4, -3), s.randn({2})}, ScatterAdd{0}, "index -4 is out of range");
  }
};

Tensor sums_by_index(const Shape<0>& x, int dim, const Tensor& index, const Tensor& g) {
  const Tensor sums = Tensor::allocate(x.sizes, g.dtype(), g.device());
  kernels::fill(g.device(), sums.view(), 0.0);
  return apply_over({&sums}, ScatterAdd{dim}, sums, index, g);
}

struct EmbeddingBackward {
  static constexpr auto name = "embedding_backward";
  static constexpr const char* args[] = {"gradient", "indices"};
  std::int64_t rows;
  std::int64_t padding = -1;  // the row that gets no gradient

  Spec infer(const Tensor& g, const Tensor& indices) const {
    check(g.dim() > 0 && indices.dtype() == i64, "needs a gradient of at least one dimension and i64 indices");
    Dims sizes = indices.sizes();
    sizes.push_back(g.sizes().back());
    check_sizes(g, "gradient", sizes);
    return like(g, {rows, g.sizes().back()});
  }
  void run(const View& y, const View& g, const View& indices) const;
  static constexpr auto vjp() {
    return rules([](const EmbeddingBackward& op, Grad g, In<1> indices) {
      return embedding(
          op.padding < 0
              ? Tensor(g)
              : index_fill(g, 0, full({1}, static_cast<double>(op.padding), {.dtype = i64, .device = g.device()}), 0),
          indices);
    });
  }
  static void samples(Samples& s) {
    for (const std::int64_t padding : {-1, 2})
      s({s.randn({2, 3, 4}), s.integers({2, 3}, 0, 5)}, EmbeddingBackward{5, padding});
  }
};

// A table of rows as operand of gather and scatter_add: every column uses the same index.
struct RowView {
  View index, rows;
  Tensor dense_index, dense_rows;  // own the memory if a copy was needed
};
RowView row_view(const View& indices, const View& rows, std::int64_t columns) {
  const std::int64_t n = indices.numel();
  RowView v{indices, rows, {}, {}};
  v.dense_index = make_dense(v.index);
  v.dense_rows = make_dense(v.rows);
  v.index.sizes = {n, columns};
  v.index.strides = {1, 0};
  v.rows.sizes = {n, columns};
  v.rows.strides = {columns, 1};
  return v;
}

// y[indices[i]] += row i.
void add_rows(const View& y, const View& rows, const View& indices) {
  const RowView v = row_view(indices, rows, y.sizes[1]);
  kernels::scatter_add(y.device, y, 0, v.index, v.rows);
}

struct Embedding {
  static constexpr auto name = "embedding";
  static constexpr const char* args[] = {"weight", "indices"};
  std::optional<std::int64_t> padding_idx = {};

  Spec infer(const Tensor& weight, const Tensor& indices) const {
    check(weight.dim() == 2, "the weight must be [rows, columns]; the indices come after it, as in torch.embedding");
    padding_row(padding_idx, weight.sizes()[0]);
    check(indices.dtype() == i64, "the indices must be i64, got ", indices.dtype());
    Dims sizes = indices.sizes();
    sizes.push_back(weight.sizes()[1]);
    return like(weight, sizes);
  }
  void run(const View& y, const View& weight, const View& indices) const {
    const RowView v = row_view(indices, y, weight.sizes[1]);
    kernels::gather(y.device, v.rows, weight, 0, v.index);
  }
  void onnx(OnnxCall& c) const { c.result(c.node("Gather", {c.in(0), c.in(1)}, {{"axis", 0}})); }
  static constexpr auto vjp() {
    return rules([](const Embedding& op, Grad g, Shape<0> weight, In<1> indices, Into<0> to) {
      return table_gradient(to, weight.sizes[0], g, indices, padding_row(op.padding_idx, weight.sizes[0]));
    });
  }
  static void samples(Samples& s) {
    s({s.randn({5, 4}), s.integers({2, 3}, 0, 5)}, Embedding{});
    s({s.randn({5, 4}), s.integers({}, 0, 5)}, Embedding{});
    s({s.randn({5, 4}), s.integers({0}, 0, 5)}, Embedding{});
    // by design, row 3 gets no gradient
    s({s.randn({5, 4}), s.integers({4, 3}, 0, 5)}, Embedding{-2}).differentiable = false;
    s.error({s.randn({5, 4}), s.integers({2}, 0, 5)}, Embedding{5}, "padding_idx 5 is out of range for 5 rows");
    s.error({s.randn({5, 4}), s.integers({2}, 5, 6)}, Embedding{}, "index 5 is out of range for a dimension of size 5");
    s.error({s.randn({5}), s.integers({2}, 0, 5)}, Embedding{}, "the weight must be [rows, columns]");
    s.error({s.randn({5, 4}), s.randn({2})}, Embedding{}, "the indices must be i64");
  }
};
void EmbeddingBackward::run(const View& y, const View& g, const View& indices) const {
  kernels::fill(y.device, y, 0.0);
  add_rows(y, g, indices);
  if (padding < 0) return;
  kernels::fill(y.device, row_of(y, padding), 0.0);
}

MANTISSA_OP(Gather)
MANTISSA_OP(ScatterAdd)
MANTISSA_OP(Embedding)
MANTISSA_OP(EmbeddingBackward)

}  // namespace

Tensor make_dense(View& v) {
  if (!v || v.is_contiguous()) return {};
  const Tensor copy = Tensor::allocate(v.sizes, v.dtype, v.device);
  kernels::copy(v.device, copy.view(), v);
  v = copy.view();
  return copy;
}
Tensor table_gradient(const Destination& to, std::int64_t rows, const Tensor& g, const Tensor& indices,
                      std::int64_t padding) {
  if (!to.leaf || to.dtype != g.dtype() || padding >= 0)
    return apply(EmbeddingBackward{rows, padding}, contiguous(g), indices);
  autograd::Place place(to, {rows, g.size(-1)}, g.device());
  if (!place.adds()) kernels::fill(g.device(), place.view(), 0.0);
  add_rows(place.view(), g.view(), indices.view());
  return place.done();
}

Tensor gather(const Tensor& x, int dim, const Tensor& index) { return apply(Gather{dim}, x, index); }
Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  return apply(ScatterAdd{dim}, x, index, source);
}
Tensor embedding(const Tensor& weight, const Tensor& indices, std::optional<std::int64_t> padding_idx) {
  return apply(Embedding{padding_idx}, weight, contiguous(indices));
}

}  // namespace mantissa
