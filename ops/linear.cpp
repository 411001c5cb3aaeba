// x @ weight^T + bias in one pass: rows of the result start as the bias and the product is added to them. Its gradients
// are matrix products, on a GPU fused with the bias gradient; parameter gradients are written in the parameter's dtype
// and added to its existing gradient (autograd/place.h). Also linear fused with an activation. The product that
// computes the gradient of x also differentiates the activation that made x, if one did. Next: core/gemm.h,
// nn/linear.h.
#include <optional>
#include <utility>

#include "autograd/place.h"
#include "core/fused_ops.h"
#include "core/gemm_fused.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/fused_activation.h"
#include "ops/parameter_gradient.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace {

// [*, n] as [rows, n].
Tensor as_rows(const Tensor& x) {
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < x.dim(); ++d) rows *= x.size(d);
  return reshape(x, {rows, x.size(-1)});
}

// The operands of x @ weight^T as matrices: x and the result as [rows, in] and [rows, out], weight transposed.
struct Matrices {
  View y, x, weight;
  Tensor copy;  // of an x whose rows have no constant stride
  Tensor weight_copy;

  Matrices(const View& result, const View& input, const View& given) : y(result), x(input), weight(given) {
    const std::int64_t in = given.size(1), out = given.size(0), rows = result.numel() / out;
    View w = given;
    // A weight that the product cannot read in place would be handled as the opposite orientation, which changes the
    // last bits.
    const bool lies_well = (w.strides[1] == 1 && w.strides[0] >= in) || (w.strides[0] == 1 && w.strides[1] >= out);
    if (!lies_well && w.device.is_cpu()) {
      weight_copy = Tensor::allocate(w.sizes, w.dtype);
      kernels::copy(cpu, weight_copy.view(), w);
      w = weight_copy.view();
      weight.data = w.data;
    }
    y.sizes = {rows, out};
    y.strides = {out, 1};
    weight.sizes = {in, out};
    weight.strides = {w.strides[1], w.strides[0]};
    x.sizes = {rows, in};
    if (!view_strides(input.sizes, input.strides, x.sizes, &x.strides)) {
      copy = Tensor::allocate(input.sizes, input.dtype, input.device);
      kernels::copy(input.device, copy.view(), input);
      x.data = copy.raw_data();
      x.strides = {in, 1};
    }
  }
};

// gradient^T @ x and the sums of the gradient over rows (weight and bias gradient) in one pass over the gradient.
struct LinearWeightBackward {
  static constexpr auto name = "linear_weight_backward";
  static constexpr const char* args[] = {"gradient", "x"};

  std::array<Spec, 2> infer(const Tensor& g, const Tensor& x) const {
    check(g.dim() == 2 && x.dim() == 2 && g.size(0) == x.size(0) && g.dtype() == x.dtype(),
          "needs two matrices of as many rows");
    return {like(x, {g.size(1), x.size(1)}), like(g, Dims{g.size(1)})};
  }
  void run(const std::array<View, 2>& d, const View& g, const View& x) const {
    View turned = g;
    std::swap(turned.sizes[0], turned.sizes[1]);
    std::swap(turned.strides[0], turned.strides[1]);
    kernels::gemm_and_sums(x.device, d[0], d[1], turned, x);
  }
  static std::array<Tensor, 2> reference(const LinearWeightBackward&, const Tensor& g, const Tensor& x) {
    return {matmul(transpose(g), x), sum(g, {0})};
  }
  static void samples(Samples& s) {
    for (const Dims& d :
         {Dims{3, 5, 4}, Dims{1, 1, 1}, Dims{70, 72, 40}, Dims{37, 19, 65}, Dims{0, 3, 2}, Dims{3, 4, 0}})
      s({s.randn({d[0], d[1]}), s.randn({d[0], d[2]})}, LinearWeightBackward{});
    s.error({s.randn({3, 4}), s.randn({4, 3})}, LinearWeightBackward{}, "needs two matrices of as many rows");
  }
};

// gradient^T @ x, stored as `to` says; on a GPU also the bias gradient, left in op.bias_gradient for the bias's rule.
template <class Op>
Tensor weight_gradient(const Op& op, const Tensor& g, const Tensor& input, bool wants_bias, const Destination& to,
                       const Destination& to_bias) {
  const Tensor gradient = as_rows(g), x = as_rows(input), turned = transpose(gradient);
  const Device device = gradient.device();
  if (!wants_bias || device.is_cpu()) return product_into(to, turned, x);
  if (to.is_plain(gradient.dtype())) {
    const auto d = apply(LinearWeightBackward{}, gradient, x);
    op.bias_gradient = d[1];
    return d[0];
  }
  autograd::Place weight(to, {gradient.size(1), x.size(1)}, device);
  if (to_bias.dtype == to.dtype) {
    autograd::Place bias(to_bias, {gradient.size(1)}, device, weight.adds());
    if (bias.adds() == weight.adds()) {  // otherwise the bias's rule computes it
      kernels::gemm_and_sums(device, weight.view(), bias.view(), turned.view(), x.view(), bias.adds());
      op.bias_gradient = bias.done();
      return weight.done();
    }
  }
  kernels::gemm(device, weight.view(), turned.view(), x.view(), {}, {}, weight.adds());
  return weight.done();
}

// The bias gradient, unless the weight's rule has already computed it.
template <class Op> Tensor bias_gradient_of(const Op& op, const Tensor& g, const Destination& to) {
  if (op.bias_gradient) return *std::exchange(op.bias_gradient, std::nullopt);
  return sum_into(to, g, -1);
}

// activation'(saved) * (gradient @ weight) for matrices; one kernel on a GPU.
struct LinearBackwardAct {
  static constexpr auto name = "linear_act_backward";
  static constexpr bool halves = false;  // as LinearAct
  static constexpr const char* args[] = {"gradient", "weight", "saved"};
  Activation activation = Activation::relu;

  Spec infer(const Tensor& g, const Tensor& weight, const Tensor& saved) const {
    check(g.dim() == 2 && weight.dim() == 2 && g.size(1) == weight.size(0) && g.dtype() == weight.dtype() &&
          g.dtype() == saved.dtype(), "needs matrices [rows, out] and [out, hidden] of one dtype");
    check_sizes(saved, "saved tensor", {g.size(0), weight.size(1)});
    return like(saved);
  }
  void run(const View& y, const View& g, const View& weight, const View& saved) const {
    kernels::gemm_act_backward(y.device, y, saved, g, weight, activation);
  }
  static Tensor reference(const LinearBackwardAct& op, const Tensor& g, const Tensor& weight, const Tensor& saved) {
    return activation_gradient(matmul(g, weight), saved, op.activation);
  }
  static void samples(Samples& s) {
    for (const Activation a : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
      for (const Dims& d : {Dims{3, 5, 4}, Dims{1, 1, 1}, Dims{37, 19, 72}, Dims{0, 3, 2}, Dims{3, 0, 4}})
        s({s.randn({d[0], d[1]}), s.randn({d[1], d[2]}), s.randn({d[0], d[2]})}, LinearBackwardAct{a});
    }
    s.error({s.randn({3, 4}), s.randn({5, 4}), s.randn({3, 4})}, LinearBackwardAct{}, "needs matrices");
    s.error({s.randn({3, 4}), s.randn({4, 5}), s.randn({3, 4})}, LinearBackwardAct{},
            "has shape [3, 4], expected [3, 5]");
  }
};

// The gradient of x [*, in], or that before the activation that made x.
Tensor input_gradient(const Tensor& g, const Tensor& weight, const autograd::SavedActivation& activation) {
  if (activation.kind == Activation::none) return matmul(g, weight);
  const Tensor& saved = activation.saved;
  return reshape(apply(LinearBackwardAct{activation.kind}, as_rows(g), weight, as_rows(saved)), saved.sizes());
}

template <class Op> constexpr auto linear_rules() {
  return rules([](Grad g, In<1> weight, ActivationOf<0> activation) { return input_gradient(g, weight, activation); },
               [](const Op& op, Grad g, In<0> x, Needs needs, Into<1> to, Into<2> to_bias) {
                 return weight_gradient(op, g, x, needs[2], to, to_bias);
               },
               [](const Op& op, Grad g, Into<2> to) { return bias_gradient_of(op, g, to); });
}

struct Linear {
  static constexpr auto name = "linear";
  static constexpr const char* args[] = {"x", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::lower;
  mutable KeptWeight kept = {};       // set by infer for run
  mutable std::optional<Tensor> bias_gradient = {};  // passed from the weight's rule to the bias's

  Spec infer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    check(weight.dim() == 2, "weight must be [out, in]");
    check(x.dim() > 0, "x needs at least 1 dimension");
    check(x.is_floating() && weight.is_floating(), "needs floating dtypes; cast integers first, as in cast(x, f32)");
    check(x.dtype() == weight.dtype() && (!bias.defined() || bias.dtype() == x.dtype()),
          "dtypes differ; cast the input or the parameters");
    check(x.size(-1) == weight.size(1), "x has ", x.size(-1), " features, weight expects ", weight.size(1),
          x.size(-1) == weight.size(0) ? "; weight is [out, in]" : "");
    check(!bias.defined() || bias.sizes() == Dims{weight.size(0)}, "bias must be [", weight.size(0),
          "], one number per output");
    kept = KeptWeight(weight);
    Dims y = x.sizes();
    y.back() = weight.size(0);
    return like(x, y);
  }

  void run(const View& y, const View& x, const View& weight, const View& bias) const {
    if (y.numel() == 0) return;
    const Matrices m(y, x, weight);
    kernels::gemm(y.device, m.y, m.x, m.weight, bias, m.weight_copy.defined() ? KeptWeight() : kept);
  }

  static constexpr auto vjp() { return linear_rules<Linear>(); }
  void onnx(OnnxCall& c) const {
    if (c.x(0).dim() == 2) return c.result(c.node("Gemm", {c.in(0), c.in(1), c.in(2)}, {{"transB", 1}}));
    const OnnxId turned = c.node("Transpose", {c.in(1)}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    const OnnxId product = c.node("MatMul", {c.in(0), turned});
    c.result(c.has(2) ? c.node("Add", {product, c.in(2)}) : product);
  }
  static Tensor reference(const Linear&, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor y = matmul(x, transpose(weight));
    return bias.defined() ? y + bias : y;
  }

  static void samples(Samples& s) {
    s({s.randn({3, 4}), s.randn({5, 4}), s.randn({5})}, Linear{});
    s({s.randn({3, 4}), s.randn({5, 4}), Tensor()}, Linear{});
    s({s.randn({4}), s.randn({5, 4}), s.randn({5})}, Linear{});
    s({s.randn({2, 3, 4}), s.randn({2, 4}), s.randn({2})}, Linear{});
    s({s.randn({1, 1}), s.randn({1, 1}), s.randn({1})}, Linear{});
    s({s.randn({0, 4}), s.randn({5, 4}), s.randn({5})}, Linear{});
    s({s.randn({3, 0}), s.randn({5, 0}), s.randn({5})}, Linear{});
    s({s.randn({37, 65}), s.randn({19, 65}), s.randn({19})}, Linear{});
    s({s.randn({130, 90}), s.randn({140, 90}), s.randn({140})}, Linear{}).flops = 2.0 * 130 * 90 * 140;
    s.error({s.randn({3, 5}), s.randn({5, 4}), s.randn({5})}, Linear{},
            "x has 5 features, weight expects 4; weight is [out, in]");
    s.error({s.randn({3, 4}), s.randn({5, 4}), s.randn({4})}, Linear{}, "bias must be [5]");
    s.error({s.randn({3, 4}), s.randn({4}), Tensor()}, Linear{}, "weight must be [out, in]");
    s.error({s.integers({3, 4}, 0, 3), s.randn({5, 4}), Tensor()}, Linear{}, "needs floating dtypes");
  }
};

// activation(linear(x)) in one kernel, recorded as the two operators: result 0 carries linear's node, and linear()
// below adds the activation's. For gelu with a gradient recorded, the results are {pre-activation, y}; otherwise {y,
// empty}.
struct LinearAct {
  static constexpr auto name = "linear_act";
  // rounded twice, as by the two operators: tests/cuda_linear_act_test.cpp compares the bits
  static constexpr bool halves = false;
  static constexpr const char* args[] = {"x", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::lower;
  Activation activation = Activation::relu;
  Linear product = {};
  mutable std::optional<Tensor> bias_gradient = {};

  std::array<Spec, 2> infer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    const Spec y = product.infer(x, weight, bias);
    const auto wanted = [](const Tensor& t) { return t.defined() && t.requires_grad(); };
    const bool recorded = context().grad_enabled && (wanted(x) || wanted(weight) || wanted(bias));
    return {y, recorded && activation != Activation::relu ? y : like(x, Dims{0})};
  }
  void run(const std::array<View, 2>& y, const View& x, const View& weight, const View& bias) const {
    if (y[0].numel() == 0) return;
    const bool two = y[1].numel() > 0;
    Matrices m(two ? y[1] : y[0], x, weight);
    View before = m.y;
    before.data = two ? y[0].data : nullptr;
    kernels::gemm_act(x.device, m.y, before, m.x, m.weight, bias, activation,
                      m.weight_copy.defined() ? KeptWeight() : product.kept);
  }
  static constexpr auto vjp() { return linear_rules<LinearAct>(); }
  static void samples(Samples& s);
};

void LinearAct::samples(Samples& s) {
  for (const Activation a : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    const auto function = [=](const Tensors& t) { return linear(t[0], t[1], t[2], a); };
    const auto meaning = [=](const Tensors& t) { return apply_activation(Linear::reference({}, t[0], t[1], t[2]), a); };
    const auto add = [&](Tensors x) { s.call(std::move(x), function, meaning); };
    add({s.randn({3, 4}), s.randn({5, 4}), s.randn({5})});
    add({s.randn({2, 3, 4}), s.randn({5, 4}), Tensor()});
    add({s.randn({4}), s.randn({5, 4}), s.randn({5})});
    add({s.randn({0, 4}), s.randn({5, 4}), s.randn({5})});
    add({s.randn({3, 0}), s.randn({5, 0}), s.randn({5})});
    add({s.randn({37, 65}), s.randn({72, 65}), s.randn({72})});
    s.error_call({s.randn({3, 4}), s.randn({5, 4}), s.randn({4})}, function, "bias must be [5]");
  }
}

}  // namespace

MANTISSA_OP(LinearAct)
MANTISSA_OP(LinearWeightBackward)
MANTISSA_OP(LinearBackwardAct)

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  if (activation == Activation::none || activation_runs_apart())
    return apply_activation(linear(x, weight, bias), activation);
  const auto [before, second] = apply(LinearAct{activation}, x, weight, bias);
  if (!before.requires_grad()) return before;
  const Tensor y = activation == Activation::relu ? before.detach() : second;
  record_activation(activation, before, y);
  return y;
}

Tensor feed_forward(const Tensor& x, const Tensor& weight1, const Tensor& bias1, Activation activation,
                    const Tensor& weight2, const Tensor& bias2) {
  return linear(linear(x, weight1, bias1, activation), weight2, bias2);
}

MANTISSA_OP(Linear)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) { return apply(Linear{}, x, weight, bias); }

}  // namespace mantissa
