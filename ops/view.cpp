// Operators that return views: the result shares storage with the input. Their gradients are views too, or a part of
// the input's gradient (slice).
#include <algorithm>

#include "autograd/part.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/named.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(spread, const View& y, const View& x, int dim, std::int64_t begin, std::int64_t step)

namespace {

using autograd::Part;

struct Reshape {  // only if the strides allow it; the public reshape() copies otherwise
  static constexpr auto name = "reshape";
  static constexpr const char* args[] = {"x"};
  Dims shape;

  Tensor view(const Tensor& x) const {
    const Dims sizes = infer_shape(shape, x.numel());
    Dims strides;
    check(view_strides(x.sizes(), x.strides(), sizes, &strides), "strides ", x.strides(),
          " do not allow a view of shape ", sizes);
    return x.raw_view(sizes, strides);
  }
  static constexpr auto vjp() {
    return rules([](Grad g, Shape<0> x) { return reshape(g, x.sizes); });
  }
  void onnx(OnnxCall& c) const {
    std::vector<OnnxAttribute> attributes;
    const Dims& sizes = c.y().sizes();
    if (std::ranges::count(sizes, 0) > 0) attributes.emplace_back("allowzero", 1);
    c.result(c.node("Reshape", {c.in(0), c.ints(sizes)}, std::move(attributes)));
  }
  static void samples(Samples& s) {
    s({s.randn({2, 6})}, Reshape{{3, 4}});
    s({s.randn({2, 6})}, Reshape{{-1}});
    s({s.randn({})}, Reshape{{1, 1}});
    s({s.randn({0, 3})}, Reshape{{3, 0}});
    // copies
    s.call({s.randn({4, 3})}, [](const Tensors& x) { return reshape(transpose(x[0], 0, 1), {2, 6}); });
    s.error({s.randn({2, 3})}, Reshape{{4, 2}}, "shape [4, 2] needs 8 elements, the tensor has 6");
    s.error({s.randn({2, 3})}, Reshape{{-1, -1}}, "more than one -1");
    s.error({s.randn({2, 3})}, Reshape{{-1, 4}}, "does not divide");
  }
};

struct Permute {
  static constexpr auto name = "permute";
  static constexpr const char* args[] = {"x"};
  Dims order;  // wrapped

  Tensor view(const Tensor& x) const {
    check(order.rank() == x.dim(), "order ", order, " names ", order.rank(), " of ", x.dim(), " dimensions");
    Dims sizes, strides;
    unsigned seen = 0;
    for (std::int64_t d : order) {
      const int at = wrap_dim(d, x.dim());
      check(!(seen >> at & 1), "order ", order, " names dimension ", at, " twice");
      seen |= 1u << at;
      sizes.push_back(x.sizes()[at]);
      strides.push_back(x.strides()[at]);
    }
    return x.raw_view(sizes, strides);
  }
  static constexpr auto vjp() {
    return rules([](const Permute& op, Grad g) {
      Dims inverse = op.order;
      for (int i = 0; i < op.order.rank(); ++i) inverse[wrap_dim(op.order[i], op.order.rank())] = i;
      return permute(g, inverse);
    });
  }
  void onnx(OnnxCall& c) const {
    std::vector<std::int64_t> wrapped;
    for (const std::int64_t d : order) wrapped.push_back(wrap_dim(d, order.rank()));
    c.result(c.node("Transpose", {c.in(0)}, {{"perm", wrapped}}));
  }
  static void samples(Samples& s) {
    s({s.randn({2, 3, 4})}, Permute{{2, 0, 1}});
    s({s.randn({2, 3})}, Permute{{-1, 0}});
    s({s.randn({})}, Permute{{}});
    s.error({s.randn({2, 3})}, Permute{{0, 0}}, "names dimension 0 twice");
    s.error({s.randn({2, 3})}, Permute{{0}}, "names 1 of 2 dimensions");
  }
};

struct Expand {
  static constexpr auto name = "expand";
  static constexpr const char* args[] = {"x"};
  Dims shape;  // -1 keeps a size

  Tensor view(const Tensor& x) const {
    check(shape.rank() >= x.dim(), "shape ", shape, " has fewer dimensions than the tensor");
    Dims sizes = shape;
    const int shift = shape.rank() - x.dim();
    for (int i = 0; i < shape.rank(); ++i) {
      const std::int64_t have = i < shift ? 1 : x.sizes()[i - shift];
      if (sizes[i] == -1 && i >= shift) sizes[i] = have;
      check(sizes[i] >= 0, "size ", sizes[i], " of dimension ", i, " is negative");
      check(have == sizes[i] || have == 1, "dimension ", i, " has size ", have, " and cannot become ", sizes[i],
            "; only size 1 expands");
    }
    return x.raw_view(sizes, broadcast_strides(x.sizes(), x.strides(), sizes));
  }
  static constexpr auto vjp() {  // the node sums over the expanded dimensions
    return rules([](Grad g) -> Tensor { return g; });
  }
  void onnx(OnnxCall& c) const {
    if (c.y().numel() == 0) c.refuse("an expansion to no elements");
    c.result(c.node("Expand", {c.in(0), c.ints(c.y().sizes())}));
  }
  static void samples(Samples& s) {
    s({s.randn({3, 1})}, Expand{{2, 3, 4}});
    s({s.randn({3, 1})}, Expand{{-1, 5}});
    s({s.randn({})}, Expand{{2, 2}});
    s({s.randn({1, 3})}, Expand{{0, 3}});
    s.error({s.randn({3, 2})}, Expand{{3, 4}}, "only size 1 expands");
    s.error({s.randn({3, 2})}, Expand{{2}}, "fewer dimensions");
    s.error({s.randn({3, 1})}, Expand{{3, -5}}, "is negative");
  }
};

struct Slice {
  static constexpr auto name = "slice";
  static constexpr const char* args[] = {"x"};
  int dim;
  std::int64_t begin, end, step;

  // Out-of-range ends are clamped, as in Python.
  Part part(const Dims& sizes) const {
    const int d = wrap_dim(dim, sizes.rank());
    const auto wrap = [size = sizes[d]](std::int64_t i) {
      return std::min(std::max<std::int64_t>(i < 0 ? i + size : i, 0), size);
    };
    const std::int64_t from = wrap(begin), to = std::max(wrap(end), from);
    // written so that a huge step cannot overflow
    return {sizes, d, from, to > from ? (to - from - 1) / step + 1 : 0, step};
  }
  Tensor view(const Tensor& x) const {
    check(x.dim() > 0, "a scalar cannot be sliced");
    check(step > 0, "step ", step, " must be positive");
    return autograd::part_of(x, part(x.sizes()));
  }
  static constexpr auto vjp();
  void onnx(OnnxCall& c) const {
    if (begin == 0 && end == INT64_MAX && step == 1) return c.result(c.in(0));
    const int d = wrap_dim(dim, c.x(0).dim());
    c.result(c.node("Slice", {c.in(0), c.ints({begin}), c.ints({end}), c.ints({d}), c.ints({step})}));
  }
  static void samples(Samples& s) {
    s({s.randn({4, 5})}, Slice{1, 1, 4, 1});
    s({s.randn({4, 5})}, Slice{0, 0, INT64_MAX, 2});
    s({s.randn({7})}, Slice{-1, -3, INT64_MAX, 1});
    s({s.randn({4, 5})}, Slice{1, 3, 2, 1});  // empty
    s.error({s.randn({4})}, Slice{0, 0, 4, 0}, "step 0 must be positive");
    s.error({s.randn({4})}, Slice{2, 0, 4, 1}, "dim 2 is out of range for 1 dimensions");
    s.error({s.randn({})}, Slice{0, 0, 4, 1}, "a scalar cannot be sliced");
  }
};

// Zeros with g in place of the slice. Runs only in a recorded backward pass, see autograd/part.h.
struct SliceBackward {
  static constexpr auto name = "slice_backward";
  static constexpr const char* args[] = {"gradient"};
  Slice of;
  Dims sizes;

  Spec infer(const Tensor& g) const {
    const Part part = of.part(sizes);
    Dims expected = sizes;
    expected[part.dim] = part.count;
    check_sizes(g, "gradient", expected);
    return like(g, sizes);
  }
  void run(const View& y, const View& g) const {
    const Part part = of.part(sizes);
    if (y.device.is_cpu()) return kernels::spread(y.device, y, g, part.dim, part.begin, part.step);
    kernels::fill(y.device, y, 0.0);
    View to = y;
    to.sizes[part.dim] = part.count;
    if (part.count > 1) to.strides[part.dim] *= part.step;
    to.data = y.as<char>() + part.begin * y.strides[part.dim] * static_cast<std::int64_t>(size_of(y.dtype));
    if (part.count > 0) kernels::copy(y.device, to, g);
  }
  static constexpr auto vjp() {
    return rules(
        [](const SliceBackward& op, Grad g) { return slice(g, op.of.dim, op.of.begin, op.of.end, op.of.step); });
  }
  static void samples(Samples& s) { s({s.randn({4, 3})}, SliceBackward{{1, 1, 4, 1}, {4, 5}}); }
};
constexpr auto Slice::vjp() {
  return rules([](const Slice& op, Grad g, Shape<0> x) { return apply(SliceBackward{op, x.sizes}, g); });
}

MANTISSA_OP(Reshape)
MANTISSA_OP(Permute)
MANTISSA_OP(Expand)
MANTISSA_OP(Slice)
MANTISSA_OP(SliceBackward)

}  // namespace

Tensor reshape(const Tensor& x, const Dims& shape) {
  Dims strides;
  const Dims sizes = named("reshape", x, [&] { return infer_shape(shape, x.numel()); });
  if (view_strides(x.sizes(), x.strides(), sizes, &strides)) return apply(Reshape{sizes}, x);
  return apply(Reshape{sizes}, contiguous(x));
}
Tensor permute(const Tensor& x, const Dims& order) { return apply(Permute{order}, x); }
Tensor expand(const Tensor& x, const Dims& shape) { return apply(Expand{shape}, x); }
Tensor slice(const Tensor& x, int dim, std::int64_t begin, std::optional<std::int64_t> end, std::int64_t step) {
  return apply(Slice{dim, begin, end.value_or(INT64_MAX), step}, x);
}

Tensor transpose(const Tensor& x, int a, int b) {
  Dims order;
  named("transpose", x, [&] {
    for (int i = 0; i < x.dim(); ++i) order.push_back(i);
    const int from = wrap_dim(a, x.dim()), to = wrap_dim(b, x.dim());
    if (x.dim() > 0) std::swap(order[from], order[to]);
  });
  return permute(x, order);
}
Tensor transpose(const Tensor& x) {
  check(x.dim() >= 2, "transpose: needs at least 2 dimensions, got ", x);
  return transpose(x, -2, -1);
}
Tensor flatten(const Tensor& x, int start, int end) {
  const auto [from, to] =
      named("flatten", x, [&] { return std::pair(wrap_dim(start, x.dim()), wrap_dim(end, x.dim())); });
  if (x.dim() == 0) return reshape(x, {1});
  check(from <= to, "flatten: start ", start, " is after end ", end, " for ", x);
  Dims shape;
  std::int64_t merged = 1;
  for (int i = 0; i < x.dim(); ++i) {
    if (i < from || i > to) shape.push_back(x.sizes()[i]);
    else if (merged *= x.sizes()[i]; i == to) shape.push_back(merged);
  }
  return reshape(x, shape);
}
Tensor unsqueeze(const Tensor& x, int dim) {
  const int at = named("unsqueeze", x, [&] {
    const int rank = x.dim();
    check(dim >= -rank - 1 && dim <= rank, "dim ", dim, " is out of range for a new dimension: ", -rank - 1, " to ",
          rank);
    if (rank == Dims::max_rank) fail_rank(rank + 1);
    return wrap_dim(dim, rank + 1);
  });
  Dims shape = x.sizes();
  shape.insert(at, 1);
  return reshape(x, shape);
}
Tensor squeeze(const Tensor& x, int dim) {
  const int d = named_dim("squeeze", x, dim);
  Dims shape = x.sizes();
  if (x.dim() > 0 && shape[d] == 1) shape.erase(d);
  return reshape(x, shape);
}
Tensor squeeze(const Tensor& x) {
  Dims shape;
  for (std::int64_t s : x.sizes()) if (s != 1) shape.push_back(s);
  return reshape(x, shape);
}
Tensor select(const Tensor& x, int dim, std::int64_t index) {
  check(x.dim() > 0, "select: a scalar cannot be indexed");
  const int d = named_dim("select", x, dim);
  const std::int64_t size = x.sizes()[d];
  check(index >= -size && index < size, "select: index ", index, " is out of range for dimension ", d, " of ", x);
  const std::int64_t at = index < 0 ? index + size : index;
  Dims shape = x.sizes();
  shape.erase(d);
  return reshape(slice(x, d, at, at + 1), shape);
}

namespace {

template <class F> void add_call(Samples& s, const Tensor& x, F f) {
  s.call({x}, [f](const Tensors& in) { return f(in[0]); });
}
void transpose_samples(Samples& s) {
  add_call(s, s.randn({2, 3}), [](const Tensor& x) { return transpose(x); });
  add_call(s, s.randn({2, 3, 4}), [](const Tensor& x) { return transpose(x, 0, -1); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return transpose(x[0]); }, "needs at least 2 dimensions");
}
void flatten_samples(Samples& s) {
  add_call(s, s.randn({2, 3, 4}), [](const Tensor& x) { return flatten(x, 1); });
  add_call(s, s.randn({}), [](const Tensor& x) { return flatten(x); });
  s.error_call(
      {s.randn({3, 2})}, [](const Tensors& x) { return flatten(x[0], 1, 0); }, "start 1 is after end 0");
}
void unsqueeze_samples(Samples& s) {
  add_call(s, s.randn({2, 3}), [](const Tensor& x) { return unsqueeze(x, 1); });
  add_call(s, s.randn({2}), [](const Tensor& x) { return unsqueeze(x, -1); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return unsqueeze(x[0], 3); }, "dim 3 is out of range");
}
void squeeze_samples(Samples& s) {
  add_call(s, s.randn({2, 1, 3, 1}), [](const Tensor& x) { return squeeze(x); });
  add_call(s, s.randn({2, 1, 3}), [](const Tensor& x) { return squeeze(x, 1); });
  add_call(s, s.randn({2, 3}), [](const Tensor& x) { return squeeze(x, 1); });
}
void select_samples(Samples& s) {
  add_call(s, s.randn({3, 4}), [](const Tensor& x) { return select(x, 1, -1); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return select(x[0], 0, 3); }, "index 3 is out of range for dimension 0");
}
MANTISSA_COMPOSITE(transpose, transpose_samples)
MANTISSA_COMPOSITE(flatten, flatten_samples)
MANTISSA_COMPOSITE(unsqueeze, unsqueeze_samples)
MANTISSA_COMPOSITE(squeeze, squeeze_samples)
MANTISSA_COMPOSITE(select, select_samples)

}  // namespace
}  // namespace mantissa
