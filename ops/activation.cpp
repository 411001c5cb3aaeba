// Activation functions. Formulas: core/pointwise.h; as layers: nn/activation.h.
#include <array>
#include <cmath>
#include <initializer_list>

#include "ops/floating.h"
#include "ops/pointwise.h"

namespace mantissa {
namespace {

using namespace pointwise;

// weight has one element or one per channel, dim 1 of x.
struct PreluOp : Prelu {
  static constexpr const char* args[] = {"x", "weight"};
  static constexpr auto autocast = formula_policy<Prelu>();

  static Dims aligned(const Dims& x, const Dims& weight) {
    Dims sizes = Dims::filled(x.rank(), 1);
    if (x.rank() > 1) sizes[1] = numel_of(weight);
    return sizes;
  }
  Spec infer(const Tensor& x, const Tensor& weight) const {
    check_floating(x);
    check(weight.dtype() == x.dtype(), "weight is ", weight.dtype(), ", expected ", x.dtype(), " as x");
    const std::int64_t channels = x.dim() > 1 ? x.size(1) : 1;
    check(weight.dim() <= 1 && (weight.numel() == 1 || weight.numel() == channels), "weight has shape ", weight.sizes(),
          ", expected [1] or one per channel, [", channels, "]");
    return like_layout(x);
  }
  void run(const View& y, const View& x, const View& weight) const {
    View w = weight;
    w.sizes = aligned(x.sizes, weight.sizes);
    w.strides = contiguous_strides(w.sizes);
    if (weight.dim() == 1 && x.dim() > 1) w.strides[1] = weight.strides[0];
    const View* inputs[] = {&x, &w};
    run_formula<Prelu>(*this, compute_dtype(y.dtype), y, inputs);
  }
  static constexpr auto vjp() {
    return rules(
        [](Grad g, In<0> x, In<1> weight) {
          return where(x > 0.0, g, g * reshape(weight, aligned(x.sizes(), weight.sizes())));
        },
        [](Grad g, In<0> x, Shape<1> weight) {
          const Tensor each = where(x > 0.0, Tensor(0.0), g * x);
          return reshape(sum_to(each, aligned(x.sizes(), weight.sizes)), weight.sizes);
        });
  }
  void onnx(OnnxCall& c) const {
    const OnnxId slope = c.node("Reshape", {c.in(1), c.ints(aligned(c.x(0).sizes(), c.x(1).sizes()))});
    c.result(c.node("PRelu", {c.in(0), slope}));
  }
  static void samples(Samples& s) {
    s({s.randn({3, 4}), s.randn({4})}, PreluOp{});
    s({s.randn({2, 3, 5}), s.randn({3})}, PreluOp{});
    s({s.randn({2, 3, 5}), s.randn({1})}, PreluOp{});
    s({s.randn({6}), s.randn({})}, PreluOp{});
    s({s.randn({0, 3}), s.randn({3})}, PreluOp{});
    s.error({s.randn({2, 3}), s.randn({2})}, PreluOp{}, "weight has shape [2], expected [1] or one per channel, [3]");
    s.error({s.integers({2, 3}, 0, 4), s.randn({3})}, PreluOp{}, "needs a floating dtype");
  }
};

void call_each(Samples& s, Tensor (*f)(const Tensor&)) {
  for (const Dims& sizes : {Dims{3, 7}, Dims{}}) {
    s.call({3.0 * s.randn(sizes)}, [f](const Tensors& x) { return f(x[0]); });
  }
}
void selu_samples(Samples& s) { call_each(s, [](const Tensor& x) { return selu(x); }); }
void celu_samples(Samples& s) {
  call_each(s, [](const Tensor& x) { return celu(x, 1.5); });
  s.error_call(
      {s.randn({2})}, [](const Tensors& x) { return celu(x[0], 0); }, "alpha must not be 0");
}
void relu6_samples(Samples& s) { call_each(s, [](const Tensor& x) { return relu6(x); }); }

// a * sigmoid(b), where a and b are the two halves of x along a dimension.
struct Halves {
  int dim = -1;
  int in(const Dims& sizes) const {
    check(sizes.rank() > 0, "a scalar cannot be halved");
    const int d = wrap_dim(dim, sizes.rank());
    check(sizes[d] % 2 == 0, "halves dim ", d, ", whose size ", sizes[d], " is odd");
    return d;
  }
  std::array<View, 2> of(View x) const {
    const int d = in(x.sizes);
    x.sizes[d] /= 2;
    View second = x;
    second.data = x.as<char>() + x.sizes[d] * x.strides[d] * static_cast<std::int64_t>(size_of(x.dtype));
    return {x, second};
  }
  std::array<Tensor, 2> of(const Tensor& x) const {
    const int d = in(x.sizes());
    return {slice(x, d, 0, x.sizes()[d] / 2), slice(x, d, x.sizes()[d] / 2)};
  }
};
struct GluBackward : Halves {
  static constexpr auto name = "glu_backward";
  static constexpr const char* args[] = {"gradient", "x"};
  Spec infer(const Tensor&, const Tensor& x) const { return like(x); }
  void run(const View& dx, const View& g, const View& x) const {
    const Dtype compute = compute_dtype(x.dtype);
    const auto [a, b] = of(x);
    const auto [da, db] = of(dx);
    const Tensor memory = Tensor::allocate(g.sizes, compute, x.device);
    const View s = memory.view();
    const auto run_on = [compute](const auto& f, const View& y, std::initializer_list<const View*> inputs) {
      run_formula(f, compute, y, std::span(inputs.begin(), inputs.size()));
    };
    run_on(Sigmoid{}, s, {&b});
    run_on(Mul{}, da, {&g, &s});
    run_on(GradOf<Sigmoid>{}, s, {&g, &s});
    run_on(Mul{}, db, {&s, &a});
  }
  static Tensor reference(const GluBackward& op, const Tensor& g, const Tensor& x) {
    const auto [a, b] = op.of(x);
    const Tensor s = sigmoid(b), da = g * s;
    return cat({da, da * a * (1.0 - s)}, op.in(x.sizes()));
  }
};
struct Glu : Halves {
  static constexpr auto name = "glu";
  static constexpr const char* args[] = {"x"};

  Spec infer(const Tensor& x) const {
    check_floating(x);
    Dims sizes = x.sizes();
    sizes[in(sizes)] /= 2;
    return like(x, sizes);
  }
  void run(const View& y, const View& x) const {
    const auto [a, b] = of(x);
    const View* inputs[] = {&a, &b};
    GradOf<Softplus> f;  // its derivative is the sigmoid
    f.of.threshold = HUGE_VAL;
    run_formula(f, compute_dtype(x.dtype), y, inputs);
  }
  static constexpr auto vjp() {
    return rules([](const Glu& op, Grad g, In<0> x) { return apply(GluBackward{op}, g, x); });
  }
  static Tensor reference(const Glu& op, const Tensor& x) {
    const auto [a, b] = op.of(x);
    return a * sigmoid(b);
  }
  static void samples(Samples& s) {
    for (const int dim : {1, -1}) s({s.randn({3, 4, 6})}, Glu{{dim}});
    s({s.randn({2, 4, 3, 70})}, Glu{{1}});
    s({s.randn({2, 0})}, Glu{});
    s.error({s.randn({2, 3})}, Glu{}, "halves dim 1, whose size 3 is odd");
    s.error({s.randn({})}, Glu{}, "a scalar cannot be halved");
  }
};

}  // namespace

MANTISSA_UNARY(Sigmoid, sigmoid)
MANTISSA_UNARY(Relu, relu)
MANTISSA_UNARY(Silu, silu)
MANTISSA_UNARY(Hardsigmoid, hardsigmoid)
MANTISSA_UNARY(Hardswish, hardswish)
MANTISSA_UNARY(Mish, mish)
MANTISSA_UNARY(Logsigmoid, logsigmoid)
MANTISSA_UNARY(Softsign, softsign)
MANTISSA_UNARY(Tanhshrink, tanhshrink)
MANTISSA_OP(Unary<Gelu>)
MANTISSA_OP(Unary<GeluTanh>)
MANTISSA_OP(Unary<Softplus>)
MANTISSA_OP(Unary<Elu>)
MANTISSA_OP(Unary<LeakyRelu>)
MANTISSA_OP(Unary<Hardtanh>)
MANTISSA_OP(Unary<Hardshrink>)
MANTISSA_OP(Unary<Softshrink>)
MANTISSA_OP(Unary<Threshold>)
MANTISSA_OP(PreluOp)
MANTISSA_COMPOSITE(selu, selu_samples)
MANTISSA_COMPOSITE(celu, celu_samples)
MANTISSA_COMPOSITE(relu6, relu6_samples)
MANTISSA_OP(Glu)

Tensor gelu(const Tensor& x, std::string_view approximate) {
  if (approximate == "tanh") return apply(Unary<GeluTanh>{}, x);
  check(approximate == "none", "gelu: approximate is \"", std::string(approximate),
        "\", expected \"none\" or \"tanh\"");
  return apply(Unary<Gelu>{}, x);
}
Tensor softplus(const Tensor& x, double beta, double threshold) {
  Unary<Softplus> op;
  op.beta = beta;
  op.threshold = threshold;
  return apply(op, x);
}
namespace {
Tensor apply_elu(const Tensor& x, double alpha, double scale, double input_scale) {
  Unary<Elu> op;
  op.alpha = alpha;
  op.scale = scale;
  op.input_scale = input_scale;
  return apply(op, x);
}
}  // namespace
Tensor elu(const Tensor& x, double alpha) { return apply_elu(x, alpha, 1, 1); }
Tensor selu(const Tensor& x) { return apply_elu(x, 1.6732632423543772, 1.0507009873554805, 1); }
Tensor celu(const Tensor& x, double alpha) {
  check(alpha != 0, "celu: alpha must not be 0");
  return apply_elu(x, alpha, 1, 1 / alpha);
}
Tensor leaky_relu(const Tensor& x, double negative_slope) {
  Unary<LeakyRelu> op;
  op.negative_slope = negative_slope;
  return apply(op, x);
}
Tensor hardtanh(const Tensor& x, double low, double high) {
  check(low <= high, "hardtanh: low ", low, " is above high ", high);
  Unary<Hardtanh> op;
  op.low = low;
  op.high = high;
  return apply(op, x);
}
Tensor hardshrink(const Tensor& x, double lambd) {
  check(lambd >= 0, "hardshrink: lambd ", lambd, " is negative");
  Unary<Hardshrink> op;
  op.lambd = lambd;
  return apply(op, x);
}
Tensor softshrink(const Tensor& x, double lambd) {
  check(lambd >= 0, "softshrink: lambd ", lambd, " is negative");
  Unary<Softshrink> op;
  op.lambd = lambd;
  return apply(op, x);
}
Tensor threshold(const Tensor& x, double threshold, double value) {
  Unary<Threshold> op;
  op.threshold = threshold;
  op.value = value;
  return apply(op, x);
}
Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }
Tensor prelu(const Tensor& x, const Tensor& weight) { return apply(PreluOp{}, x, weight); }
Tensor glu(const Tensor& x, int dim) { return apply(Glu{{dim}}, x); }

}  // namespace mantissa
