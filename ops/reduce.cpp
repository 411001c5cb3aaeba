// Reductions: sum, mean, var, extremes with and without indices, and sum_to, which undoes broadcasting. Kernels get a
// result of x's rank with size 1 in the reduced dimensions; keepdim only changes the shape the user sees.
#include "ops/reduce.h"

#include "core/formula_recorder.h"
#include "ops/with_dtype.h"

namespace mantissa {

MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)
MANTISSA_KERNEL(reduce_max, const View& y, const View& x)
MANTISSA_KERNEL(reduce_min, const View& y, const View& x)
MANTISSA_KERNEL(reduce_var, const View& y, const View& x, double divisor)
MANTISSA_KERNEL(reduce_arg, const View& values, const View& indices, const View& x, bool largest)

namespace {

struct SumOp : Over {
  static constexpr auto name = "sum";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_default;

  Spec infer(const Tensor& x) const { return {result(x.sizes()), x.is_floating() ? x.dtype() : i64, x.device()}; }
  void run(const View& y, const View& x) const { kernels::reduce_sum(x.device, aligned(y, x.sizes), x, 1.0); }
  static constexpr auto vjp() {
    return rules([](const SumOp& op, Grad g, Shape<0> x) { return expand(op.broadcastable(g, x.sizes), x.sizes); });
  }
  void onnx(OnnxCall& c) const { c.result(reduced(c, "ReduceSum")); }
  static void samples(Samples& s);
};

struct MeanOp : Over {
  static constexpr auto name = "mean";
  static constexpr const char* args[] = {"x"};

  Spec infer(const Tensor& x) const {
    check_floating(x);
    return like(x, result(x.sizes()));
  }
  void run(const View& y, const View& x) const {
    kernels::reduce_sum(x.device, aligned(y, x.sizes), x, static_cast<double>(count(x.sizes)));
  }
  static constexpr auto vjp() {
    return rules([](const MeanOp& op, Grad g, Shape<0> x) {
      return expand(op.broadcastable(g, x.sizes) / static_cast<double>(op.count(x.sizes)), x.sizes);
    });
  }
  void onnx(OnnxCall& c) const { c.result(reduced(c, "ReduceMean")); }
  static void samples(Samples& s);
};

struct VarOp : Over {
  static constexpr auto name = "var";
  static constexpr const char* args[] = {"x"};
  int correction = 1;

  double divisor(const Dims& sizes) const {
    const std::int64_t n = count(sizes) - correction;
    return static_cast<double>(n > 0 ? n : 0);
  }
  Spec infer(const Tensor& x) const {
    check_floating(x);
    return like(x, result(x.sizes()));
  }
  void run(const View& y, const View& x) const {
    kernels::reduce_var(x.device, aligned(y, x.sizes), x, divisor(x.sizes));
  }
  static constexpr auto vjp() {
    return rules([](const VarOp& op, Grad g, In<0> x) {
      const Tensor wide = is_half(x.dtype()) ? cast(x, f32) : Tensor(x);  // deviations need the mean in full precision
      const Tensor centred = wide - mean(wide, op.dims, true);
      return op.broadcastable(g, x.sizes()) * (2 / op.divisor(x.sizes())) * centred;
    });
  }
  static Tensor reference(const VarOp& op, const Tensor& x) {
    return sum(square(x - mean(x, op.dims, true)), op.dims, op.keepdim) / op.divisor(x.sizes());
  }
  static void samples(Samples& s);
};

template <bool largest> struct Extreme : Over {
  static constexpr auto name = largest ? "amax" : "amin";
  static constexpr const char* args[] = {"x"};

  Spec infer(const Tensor& x) const {
    check(x.numel() > 0 || count(x.sizes()) > 0, "an empty set has no ", largest ? "maximum" : "minimum");
    return like(x, result(x.sizes()));
  }
  void run(const View& y, const View& x) const {
    if (largest) kernels::reduce_max(x.device, aligned(y, x.sizes), x);
    else kernels::reduce_min(x.device, aligned(y, x.sizes), x);
  }
  static constexpr auto vjp() {
    return rules([](const Extreme& op, Grad g, In<0> x, Out<0> y) {
      const Tensor chosen = cast(eq(x, op.broadcastable(y, x.sizes())), g.dtype());
      return op.broadcastable(g, x.sizes()) * (chosen / sum(chosen, op.dims, true));
    });
  }
  void onnx(OnnxCall& c) const {
    if (c.x(0).dtype() == boolean) c.refuse("an extreme of bool tensors; use any() or all() of casts");
    c.result(reduced(c, largest ? "ReduceMax" : "ReduceMin"));
  }
  static void samples(Samples& s);
};

// --- along one dimension, with the index of the first occurrence ---
struct Along {
  int dim = 0;
  bool keepdim = false;

  Over over() const { return {Dims{dim}, keepdim}; }
  OnnxId place(OnnxCall& c, bool largest) const {
    return c.node(largest ? "ArgMax" : "ArgMin", {c.in(0)}, {c.axis(dim), {"keepdims", keepdim}});
  }
  Dims checked_result(const Tensor& x) const {
    const Dims r = over().result(x.sizes());
    check(over().count(x.sizes()) > 0, "dim ", dim, " has no elements to choose from");
    return r;
  }
};

template <bool largest> struct ExtremeAlong : Along {
  static constexpr auto name = largest ? "max" : "min";
  static constexpr const char* args[] = {"x"};

  std::array<Spec, 2> infer(const Tensor& x) const {
    const Dims r = checked_result(x);
    return {like(x, r), Spec{r, i64, x.device()}};
  }
  void run(const std::array<View, 2>& y, const View& x) const {
    kernels::reduce_arg(x.device, over().aligned(y[0], x.sizes), over().aligned(y[1], x.sizes), x, largest);
  }
  static constexpr auto vjp() {
    return rules([](const ExtremeAlong& op, Grad g, Shape<0> x, Out<1> indices) {
      const Over over = op.over();
      if (x.sizes.empty()) return Tensor(g);
      const Tensor none = zeros(x.sizes, {.dtype = g.dtype(), .device = g.device()});
      return scatter(none, op.dim, over.broadcastable(indices, x.sizes), over.broadcastable(g, x.sizes));
    });
  }
  void onnx(OnnxCall& c) const {
    c.result(place(c, largest), 1);
    c.result(c.reduce(largest ? "ReduceMax" : "ReduceMin", c.in(0), {dim}, keepdim));
  }
  static void samples(Samples& s);
};

template <bool largest> struct ArgExtreme : Along {
  static constexpr auto name = largest ? "argmax" : "argmin";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = false;

  Spec infer(const Tensor& x) const { return {checked_result(x), i64, x.device()}; }
  void run(const View& y, const View& x) const {
    kernels::reduce_arg(x.device, View{}, over().aligned(y, x.sizes), x, largest);
  }
  void onnx(OnnxCall& c) const { c.result(place(c, largest)); }
  static void samples(Samples& s);
};

struct SumTo {
  static constexpr auto name = "sum_to";
  static constexpr const char* args[] = {"x"};
  Dims sizes;

  Spec infer(const Tensor& x) const {
    check(sizes.rank() <= x.dim() && broadcast(sizes, x.sizes()) == x.sizes(), "sizes ", sizes, " do not broadcast to ",
          x.sizes());
    return {sizes, x.is_floating() ? x.dtype() : i64, x.device()};
  }
  void run(View y, const View& x) const {
    if (pointwise::formula_recorder) [[unlikely]] pointwise::formula_recorder->sum_to(y, x);
    while (y.sizes.rank() < x.dim()) y.sizes.insert(0, 1);
    y.strides = contiguous_strides(y.sizes);
    kernels::reduce_sum(x.device, y, x, 1.0);
  }
  static constexpr auto vjp() {
    return rules([](Grad g, Shape<0> x) { return expand(g, x.sizes); });
  }
  static void samples(Samples& s);
};

// --- samples ---
template <class Op> void scalar_and_empty_samples(Samples& s, const Op& op) {
  auto with = [&](const Dims& sizes, const Dims& dims) {
    Op o = op;
    o.dims = dims;
    s({s.randn(sizes)}, o);
  };
  with({}, {});
  with({}, {-1});
  with({0, 3}, {1});
  if (std::is_same_v<Op, SumOp>) with({0, 3}, {0});  // an empty sum is 0
}

void SumOp::samples(Samples& s) {
  reduction_samples(s, SumOp{}, [&](const Dims& d) { return s.randn(d); });
  scalar_and_empty_samples(s, SumOp{});
}
void MeanOp::samples(Samples& s) {
  reduction_samples(s, MeanOp{}, [&](const Dims& d) { return s.randn(d); });
  scalar_and_empty_samples(s, MeanOp{});
  s.error({s.integers({3}, 0, 5)}, MeanOp{}, "needs a floating dtype");
}
void VarOp::samples(Samples& s) {
  for (int correction : {0, 1}) {
    VarOp op;
    op.correction = correction;
    reduction_samples(s, op, [&](const Dims& d) { return s.randn(d); });
  }
  s.error({s.integers({3}, 0, 5)}, VarOp{}, "needs a floating dtype");
}
template <bool largest> void Extreme<largest>::samples(Samples& s) {
  reduction_samples(s, Extreme{}, [&](const Dims& d) { return s.distinct(d); });
  scalar_and_empty_samples(s, Extreme{});
  s.error({s.randn({0, 3})}, Extreme{}, "an empty set has no");
}
template <class Op> void samples_along(Samples& s) {
  auto with = [&](const Dims& sizes, int dim, bool keepdim) {
    Op op;
    op.dim = dim;
    op.keepdim = keepdim;
    s({s.distinct(sizes)}, op).exact_only = true;
  };
  with({3, 5}, 0, false);
  with({3, 5}, -1, true);
  with({2, 7, 3}, 1, false);
  with({2, 300}, 1, false);
  with({}, 0, false);
  with({0, 4}, 1, true);
  Op op;
  op.dim = 2;
  s.error({s.randn({2, 3})}, op, "dim 2 is out of range for 2 dimensions");
  op.dim = 0;
  s.error({s.randn({0, 3})}, op, "has no elements to choose from");
}
template <bool largest> void ExtremeAlong<largest>::samples(Samples& s) { samples_along<ExtremeAlong>(s); }
template <bool largest> void ArgExtreme<largest>::samples(Samples& s) { samples_along<ArgExtreme>(s); }
void SumTo::samples(Samples& s) {
  s({s.randn({4, 3})}, SumTo{{3}});
  s({s.randn({2, 4, 3})}, SumTo{{4, 1}});
  s({s.randn({2, 4, 3})}, SumTo{{}});
  s({s.randn({2, 3})}, SumTo{{2, 3}});
  s({s.randn({5, 0})}, SumTo{{1, 0}});
  s({s.randn({0, 5})}, SumTo{{5}});
  s.error({s.randn({4, 3})}, SumTo{{4}}, "sizes [4] and [4, 3] do not broadcast");
  s.error({s.randn({3})}, SumTo{{2, 3}}, "sizes [2, 3] do not broadcast to [3]");
}

}  // namespace

MANTISSA_OP(SumOp)
MANTISSA_OP(MeanOp)
MANTISSA_OP(VarOp)
MANTISSA_OP(Extreme<true>)
MANTISSA_OP(Extreme<false>)
MANTISSA_OP(ExtremeAlong<true>)
MANTISSA_OP(ExtremeAlong<false>)
MANTISSA_OP(ArgExtreme<true>)
MANTISSA_OP(ArgExtreme<false>)
MANTISSA_OP(SumTo)

Tensor sum(const Tensor& x, const Dims& dims, bool keepdim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [&](const Tensor& t) { return apply(SumOp{{dims, keepdim}}, t); });
}
Tensor mean(const Tensor& x, const Dims& dims, bool keepdim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [&](const Tensor& t) { return apply(MeanOp{{dims, keepdim}}, t); });
}
Tensor var(const Tensor& x, const Dims& dims, bool keepdim, int correction) {
  return apply(VarOp{{dims, keepdim}, correction}, x);
}
Tensor amax(const Tensor& x, const Dims& dims, bool keepdim) { return apply(Extreme<true>{{dims, keepdim}}, x); }
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim) { return apply(Extreme<false>{{dims, keepdim}}, x); }
ValuesIndices max(const Tensor& x, int dim, bool keepdim) {
  auto y = apply(ExtremeAlong<true>{{dim, keepdim}}, x);
  return {std::move(y[0]), std::move(y[1])};
}
ValuesIndices min(const Tensor& x, int dim, bool keepdim) {
  auto y = apply(ExtremeAlong<false>{{dim, keepdim}}, x);
  return {std::move(y[0]), std::move(y[1])};
}
Tensor argmax(const Tensor& x, int dim, bool keepdim) { return apply(ArgExtreme<true>{{dim, keepdim}}, x); }
Tensor argmin(const Tensor& x, int dim, bool keepdim) { return apply(ArgExtreme<false>{{dim, keepdim}}, x); }
Tensor sum_to(const Tensor& x, const Dims& sizes) { return apply(SumTo{sizes}, x); }

}  // namespace mantissa
