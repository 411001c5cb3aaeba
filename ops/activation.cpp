// Activation functions. Formulas: core/pointwise.h; as layers: nn/activation.h.
#include "ops/compose.h"
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

struct Glu {
  static constexpr auto name = "glu";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  int dim = -1;

  static Tensor compose(const Glu& op, const Tensor& x) {
    check(x.dim() > 0, "a scalar cannot be halved");
    const int d = wrap_dim(op.dim, x.dim());
    const std::int64_t size = x.sizes()[d];
    check(size % 2 == 0, "halves dim ", d, ", whose size ", size, " is odd");
    return slice(x, d, 0, size / 2) * sigmoid(slice(x, d, size / 2));
  }
  static void samples(Samples& s) {
    for (const int dim : {1, -1}) composed(s, {s.randn({3, 4, 6})}, Glu{dim});
    composed_error(s, {s.randn({2, 3})}, Glu{}, "halves dim 1, whose size 3 is odd");
    composed_error(s, {s.randn({})}, Glu{}, "a scalar cannot be halved");
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
Tensor glu(const Tensor& x, int dim) { return apply_composed(Glu{dim}, x); }

}  // namespace mantissa
