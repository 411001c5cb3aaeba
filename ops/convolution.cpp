// Convolution (cross-correlation, as everywhere in deep learning) of images and volumes, and its
// gradients. All three operators are bilinear and are each other's gradients, so derivatives of every order exist. One
// template covers 2 and 3 dimensions. Parameter gradients are written directly into the parameter's gradient
// (autograd/place.h). A relu after a convolution, and the derivative of one before it, can be part of the same kernel.
// Next: core/conv.h.
#include "core/conv.h"

#include "autograd/place.h"
#include "core/fused_ops.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/fused_activation.h"
#include "ops/no_batch.h"
#include "ops/parameter_gradient.h"
#include "ops/registry.h"
#include "ops/wide_convolution.h"

namespace mantissa {
namespace {

template <int n> struct OptionsFor;
template <> struct OptionsFor<2> { using type = Conv2dOptions; };
template <> struct OptionsFor<3> { using type = Conv3dOptions; };
template <int n> using Options = typename OptionsFor<n>::type;

template <int n> Tensor convolve(const Options<n>& o, const Tensor& x, const Tensor& weight);
template <int n>
Tensor convolve_relu(const Options<n>& o, const Tensor& x, const Tensor& weight, const Tensor& bias);
template <int n> Tensor input_gradient(const Options<n>& o, const Dims& x, const Tensor& g, const Tensor& weight);
template <int n>
Tensor input_gradient(const Options<n>& o, const Tensor& g, const Tensor& weight,
                      const autograd::SavedActivation& made);
template <int n>
Tensor weight_gradient(const Options<n>& o, const Dims& weight, const Tensor& x, const Tensor& g,
                       Layout layout = Layout::contiguous);

// For error messages.
template <int n> constexpr const char* layout = n == 2 ? "[N, C, H, W]" : "[N, C, D, H, W]";
template <int n>
constexpr const char* weight_layout =
    n == 2 ? "[out, in / groups, height, width]" : "[out, in / groups, depth, height, width]";
template <int n> const char* dimension_name(int d) {
  constexpr const char* names[] = {"depth", "height", "width"};
  return names[d + 3 - n];
}

template <int n> void check_options(const Options<n>& o) {
  for (int d = 0; d < n; ++d) {
    check(o.stride[d] >= 1, "stride must be at least 1, found ", o.stride[d]);
    check(o.dilation[d] >= 1, "dilation must be at least 1, found ", o.dilation[d]);
    check(o.padding[d] >= 0, "padding must not be negative, found ", o.padding[d]);
  }
  check(o.groups >= 1, "groups must be at least 1, found ", o.groups);
}

template <int n> std::int64_t output_size(const Options<n>& o, int d, std::int64_t in, std::int64_t kernel) {
  const std::int64_t border = o.padding[d], padded = in + 2 * border, extent = (kernel - 1) * o.dilation[d] + 1;
  check(extent <= padded, dimension_name<n>(d), ": a kernel that reaches over ", extent, " does not fit into ", padded,
        " (with padding)");
  return (padded - extent) / o.stride[d] + 1;
}

// Checks x [N, C, ...] against weight [O, C / groups, ...]; returns the result's sizes.
template <int n> Dims check_shapes(const Options<n>& o, const Dims& x, const Dims& weight) {
  check_options<n>(o);
  check(x.rank() == n + 2, "x must be ", layout<n>);
  check(weight.rank() == n + 2, "weight must be ", weight_layout<n>);
  for (std::int64_t size : weight) check(size > 0, "weight must not be empty");
  check(weight[1] * o.groups == x[1], "x has ", x[1], " channels, weight",
        o.groups > 1 ? concat(" with ", o.groups, " groups") : "", " expects ", weight[1] * o.groups);
  check(weight[0] % o.groups == 0, weight[0], " output channels do not divide into ", o.groups, " groups");
  Dims y{x[0], weight[0]};
  for (int d = 0; d < n; ++d) y.push_back(output_size<n>(o, d, x[d + 2], weight[d + 2]));
  return y;
}
void check_dtypes(const Tensor& a, const Tensor& b) {
  check(a.is_floating() && b.is_floating(), "needs floating dtypes; cast integers first, as in cast(x, f32)");
  check(a.dtype() == b.dtype(), "dtypes ", a.dtype(), " and ", b.dtype(), " differ; cast one of them");
}

template <int n> ConvShape shape_of(const Options<n>& o, const Dims& x, const Dims& weight, const Dims& y) {
  ConvShape s{};
  s.batch = x[0];
  s.in_channels = x[1];
  s.out_channels = y[1];
  s.groups = o.groups;
  if constexpr (n == 3) s.depth = {x[2], y[2], weight[2], o.stride[0], o.padding[0], o.dilation[0]};
  for (int d = 0; d < 2; ++d) {
    s.in[d] = x[d + n];
    s.out[d] = y[d + n];
    s.kernel[d] = weight[d + n];
    s.stride[d] = o.stride[d + n - 2];
    s.padding[d] = o.padding[d + n - 2];
    s.dilation[d] = o.dilation[d + n - 2];
  }
  return s;
}

// Spec of an image that a convolution writes. A gradient has the layout that a convolution with as many output channels
// would have chosen: operators in between then see a single layout.
template <int n> Spec images_of(const Tensor& operand, const Dims& sizes, ConvShape s) {
  Spec y = like(operand, sizes);
  s.out_channels = sizes[1];
  y.layout = conv_layout(s, y.dtype, y.device);
  return y;
}

template <int n> std::vector<OnnxAttribute> onnx_attributes(const Options<n>& o) {
  const auto ints = [](const auto& v) { return std::vector<std::int64_t>(v.begin(), v.end()); };
  std::vector<std::int64_t> pads = ints(o.padding);
  pads.insert(pads.end(), o.padding.begin(), o.padding.end());
  return {{"strides", ints(o.stride)}, {"pads", pads}, {"dilations", ints(o.dilation)}, {"group", o.groups}};
}

// The same for a gradient rule: in the dtype and layout of the leaf that it is for, and added to what that has.
template <int n>
Tensor weight_gradient_into(const Destination& to, const Options<n>& o, const Dims& sizes, const Tensor& x,
                            const Tensor& g) {
  if (to.is_plain(g.dtype())) return weight_gradient<n>(o, sizes, x, g, to.layout);
  autograd::Place place(to, sizes, g.device());
  kernels::conv2d(g.device(), ConvPass::weight_gradient, shape_of<n>(o, x.sizes(), sizes, g.sizes()), place.view(),
                  x.view(), g.view(), View{}, {}, place.adds());
  return place.done();
}

template <int n> struct Conv {
  static constexpr auto name = n == 2 ? "conv2d" : "conv3d";
  static constexpr const char* args[] = {"x", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::lower;
  Options<n> options;
  mutable KeptWeight kept = {};  // set by infer for run

  Spec infer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    const Dims y = check_shapes<n>(options, x.sizes(), weight.sizes());
    check_dtypes(x, weight);
    kept = KeptWeight(weight);
    if (bias.defined()) {
      check_dtypes(x, bias);
      check(bias.sizes() == Dims{y[1]}, "bias must be [", y[1], "], one number per output channel");
    }
    return images_of<n>(x, y, shape_of<n>(options, x.sizes(), weight.sizes(), y));
  }
  void run(const View& y, const View& x, const View& weight, const View& bias) const {
    kernels::conv2d(y.device, ConvPass::forward, shape_of<n>(options, x.sizes, weight.sizes, y.sizes), y, x, weight,
                    bias, kept);
  }
  template <class Op> static constexpr auto rules_of() {
    return rules(
        [](const Op& op, Grad g, Shape<0> x, In<1> weight, ActivationOf<0> made) {
          return made.kind == Activation::none ? input_gradient<n>(op.options, x.sizes, g, weight)
                                               : input_gradient<n>(op.options, g, weight, made);
        },
        [](const Op& op, Grad g, In<0> x, Shape<1> weight, Into<1> to) {
          return weight_gradient_into<n>(to, op.options, weight.sizes, x, g);
        },
        [](Grad g, Into<2> to) { return sum_into(to, g, 1); });
  }
  static constexpr auto vjp() { return rules_of<Conv>(); }
  void onnx(OnnxCall& c) const { c.result(c.node("Conv", {c.in(0), c.in(1), c.in(2)}, onnx_attributes<n>(options))); }
  static void samples(Samples& s);
};

// relu(conv(x)) in one kernel where there is one, recorded as the two operators: the result carries the node of the
// convolution, and convolve_relu below adds that of relu.
template <int n> struct ConvThenRelu : Conv<n> {
  static constexpr auto name = n == 2 ? "conv2d_relu" : "conv3d_relu";
  void run(const View& y, const View& x, const View& weight, const View& bias) const {
    kernels::conv2d(y.device, ConvPass::forward, shape_of<n>(this->options, x.sizes, weight.sizes, y.sizes), y, x,
                    weight, bias, this->kept, false, {.after = true});
  }
  static constexpr auto vjp() { return Conv<n>::template rules_of<ConvThenRelu>(); }
  void onnx(OnnxCall& c) const {
    const OnnxId y = c.node("Conv", {c.in(0), c.in(1), c.in(2)}, onnx_attributes<n>(this->options));
    c.result(c.node("Relu", {y}));
  }
  static void samples(Samples& s);
};

// The gradient with respect to x: every output pixel is spread over its input window.
template <int n> struct InputGrad {
  static constexpr auto name = n == 2 ? "conv2d_input_grad" : "conv3d_input_grad";
  static constexpr const char* args[] = {"gradient", "weight"};
  static constexpr auto autocast = CastPolicy::lower;
  Options<n> options;
  Dims x_sizes;
  bool wide = false;  // f16 and bf16 operands give an f32 result

  Spec infer(const Tensor& g, const Tensor& weight) const {
    const Dims y = check_shapes<n>(options, x_sizes, weight.sizes());
    check(g.sizes() == y, "the gradient must have the sizes of the result, ", y);
    check_dtypes(g, weight);
    Spec dx = images_of<n>(g, x_sizes, shape_of<n>(options, x_sizes, weight.sizes(), y));
    if (wide) dx.dtype = compute_dtype(dx.dtype);
    return dx;
  }
  void run(const View& dx, const View& g, const View& weight) const {
    kernels::conv2d(g.device, ConvPass::input_gradient, shape_of<n>(options, dx.sizes, weight.sizes, g.sizes), dx, g,
                    weight, View{});
  }
  static constexpr auto vjp() {
    return rules(
        [](const InputGrad& op, Grad h, In<1> weight) {
          return convolve<n>(op.options, cast(h, weight.dtype()), weight);
        },
        [](const InputGrad& op, Grad h, In<0> g, Shape<1> weight, Into<1> to) {
          return weight_gradient_into<n>(to, op.options, weight.sizes, cast(h, g.dtype()), g);
        });
  }
  void onnx(OnnxCall& c) const {  // as a transposed convolution
    std::vector<OnnxAttribute> attributes = onnx_attributes<n>(options);
    std::vector<std::int64_t> rest;
    for (int d = 0; d < n; ++d) {
      const std::int64_t extent = (c.x(1).size(d + 2) - 1) * options.dilation[d] + 1;
      rest.push_back(x_sizes[d + 2] - (c.x(0).size(d + 2) - 1) * options.stride[d] +
                     std::int64_t{2} * options.padding[d] - extent);
    }
    attributes.emplace_back("output_padding", rest);
    const auto in = [&](int i) { return wide ? c.in(i, c.y().dtype()) : c.in(i); };
    c.result(c.node("ConvTranspose", {in(0), in(1)}, std::move(attributes)));
  }
  static void samples(Samples& s);
};

// The same for an x that a relu made: its gradient before that.
template <int n> struct InputGradRelu {
  static constexpr auto name = n == 2 ? "conv2d_relu_backward" : "conv3d_relu_backward";
  static constexpr const char* args[] = {"gradient", "weight", "saved"};
  Options<n> options;

  Spec infer(const Tensor& g, const Tensor& weight, const Tensor& saved) const {
    check_dtypes(g, saved);
    return InputGrad<n>{options, saved.sizes()}.infer(g, weight);
  }
  void run(const View& dx, const View& g, const View& weight, const View& saved) const {
    kernels::conv2d(g.device, ConvPass::input_gradient, shape_of<n>(options, dx.sizes, weight.sizes, g.sizes), dx, g,
                    weight, View{}, {}, false, {.made = &saved});
  }
  static Tensor reference(const InputGradRelu& op, const Tensor& g, const Tensor& weight, const Tensor& saved) {
    return activation_gradient(input_gradient<n>(op.options, saved.sizes(), g, weight), saved, Activation::relu);
  }
  static void samples(Samples& s);
};

template <int n> struct WeightGrad {
  static constexpr auto name = n == 2 ? "conv2d_weight_grad" : "conv3d_weight_grad";
  static constexpr const char* args[] = {"x", "gradient"};
  static constexpr auto autocast = CastPolicy::lower;
  Options<n> options;
  Dims weight_sizes;
  Layout layout = Layout::contiguous;  // of the result

  Spec infer(const Tensor& x, const Tensor& g) const {
    const Dims y = check_shapes<n>(options, x.sizes(), weight_sizes);
    check(g.sizes() == y, "the gradient must have the sizes of the result, ", y);
    check_dtypes(x, g);
    Spec dw = like(x, weight_sizes);
    dw.layout = layout;
    return dw;
  }
  void run(const View& dw, const View& x, const View& g) const {
    kernels::conv2d(g.device, ConvPass::weight_gradient, shape_of<n>(options, x.sizes, dw.sizes, g.sizes), dw, x, g,
                    View{});
  }
  static constexpr auto vjp() {
    return rules(
        [](const WeightGrad& op, Grad v, Shape<0> x, In<1> g) { return input_gradient<n>(op.options, x.sizes, g, v); },
        [](const WeightGrad& op, Grad v, In<0> x) { return convolve<n>(op.options, x, v); });
  }
  static void samples(Samples& s);
};

template <int n> Tensor convolve(const Options<n>& o, const Tensor& x, const Tensor& weight) {
  return apply(Conv<n>{o}, x, weight, Tensor());
}
template <int n> Tensor input_gradient(const Options<n>& o, const Dims& x, const Tensor& g, const Tensor& weight) {
  return apply(InputGrad<n>{o, x}, g, weight);
}
template <int n>
Tensor input_gradient(const Options<n>& o, const Tensor& g, const Tensor& weight,
                      const autograd::SavedActivation& made) {
  if (made.kind == Activation::relu) return apply(InputGradRelu<n>{o}, g, weight, made.saved);
  return activation_gradient(input_gradient<n>(o, made.saved.sizes(), g, weight), made.saved, made.kind);
}
template <int n>
Tensor weight_gradient(const Options<n>& o, const Dims& weight, const Tensor& x, const Tensor& g, Layout layout) {
  return apply(WeightGrad<n>{o, weight, layout}, x, g);
}

// --- samples: one list of shapes for the three operators ---
template <int n> struct Case { Dims x, weight; Options<n> options; };
const Case<2> images[] = {
    {{2, 3, 5, 6}, {4, 3, 3, 3}, {}},
    {{2, 1, 6, 6}, {2, 1, 3, 3}, {.padding = {1, 1}}},
    {{2, 4, 5, 4}, {3, 4, 1, 1}, {}},
    {{1, 2, 7, 6}, {3, 2, 3, 2}, {.stride = {2, 3}, .padding = {1, 0}}},
    {{1, 2, 7, 8}, {2, 2, 3, 3}, {.padding = {2, 1}, .dilation = {2, 2}}},
    {{2, 4, 4, 4}, {6, 2, 3, 3}, {.padding = {1, 1}, .groups = 2}},
    {{1, 3, 5, 5}, {3, 1, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 3}},
    {{0, 2, 4, 4}, {3, 2, 3, 3}, {}},
    {{3, 2, 3, 3}, {2, 2, 3, 3}, {}},
    {{2, 16, 9, 9}, {16, 16, 3, 3}, {.padding = {1, 1}}},
};
const Case<3> volumes[] = {
    {{2, 2, 3, 4, 3}, {3, 2, 2, 3, 2}, {}},
    {{1, 5, 3, 3, 3}, {2, 5, 1, 1, 1}, {}},
    {{1, 2, 4, 5, 4}, {2, 2, 2, 3, 2}, {.stride = {2, 1, 3}, .padding = {1, 0, 1}}},
    {{1, 1, 5, 4, 5}, {2, 1, 2, 2, 3}, {.padding = {0, 1, 2}, .dilation = {2, 1, 2}}},
    {{2, 6, 2, 3, 3}, {3, 2, 2, 2, 2}, {.padding = {1, 0, 1}, .groups = 3}},
    {{0, 2, 3, 3, 3}, {2, 2, 2, 2, 2}, {}},
};
template <int n> std::span<const Case<n>> cases() {
  if constexpr (n == 2) return images;
  else return volumes;
}
template <int n> Dims result_of(const Case<n>& c) { return check_shapes<n>(c.options, c.x, c.weight); }

template <> void Conv<2>::samples(Samples& s) {
  for (const Case<2>& c : images) s({s.randn(c.x), s.randn(c.weight), s.randn({c.weight[0]})}, Conv{c.options});
  s({s.randn({2, 3, 5, 5}), s.randn({2, 3, 3, 3}), Tensor()}, Conv{});
  const auto error = [&](const Case<2>& c, const char* fragment) {
    s.error({s.randn(c.x), s.randn(c.weight), Tensor()}, Conv{c.options}, fragment);
  };
  error({{2, 3, 5, 5}, {4, 2, 3, 3}, {}}, "x has 3 channels, weight expects 2");
  error({{3, 5, 5}, {4, 3, 3, 3}, {}}, "x must be [N, C, H, W]");
  error({{2, 3, 5, 5}, {4, 3, 3}, {}}, "weight must be [out, in / groups, height, width]");
  error({{2, 3, 2, 5}, {4, 3, 3, 3}, {}}, "height: a kernel that reaches over 3 does not fit into 2");
  error({{2, 3, 5, 5}, {4, 3, 3, 3}, {.stride = {0, 1}}}, "stride must be at least 1");
  error({{2, 3, 5, 5}, {4, 3, 3, 3}, {.padding = {-1, 1}}}, "padding must not be negative");
  error({{2, 3, 5, 5}, {4, 3, 3, 3}, {.dilation = {1, 0}}}, "dilation must be at least 1");
  error({{2, 4, 5, 5}, {3, 2, 3, 3}, {.groups = 2}}, "3 output channels do not divide into 2 groups");
  s.error({s.randn({1, 1, 3, 3}), s.randn({2, 1, 1, 1}), s.randn({3})}, Conv{}, "bias must be [2]");
  s.error({s.integers({1, 1, 3, 3}, 0, 3), s.randn({2, 1, 1, 1}), Tensor()}, Conv{}, "needs floating dtypes");
}
template <> void Conv<3>::samples(Samples& s) {
  for (const Case<3>& c : volumes) s({s.randn(c.x), s.randn(c.weight), s.randn({c.weight[0]})}, Conv{c.options});
  s({s.randn({1, 2, 2, 3, 3}), s.randn({2, 2, 2, 2, 2}), Tensor()}, Conv{});
  const auto error = [&](const Case<3>& c, const char* fragment) {
    s.error({s.randn(c.x), s.randn(c.weight), Tensor()}, Conv{c.options}, fragment);
  };
  error({{3, 5, 5, 5}, {4, 3, 3, 3, 3}, {}}, "x must be [N, C, D, H, W]");
  error({{1, 3, 5, 5, 5}, {4, 3, 3, 3}, {}}, "weight must be [out, in / groups, depth, height, width]");
  error({{1, 3, 2, 5, 5}, {4, 3, 3, 3, 3}, {}}, "depth: a kernel that reaches over 3 does not fit into 2");
  error({{1, 4, 5, 5, 5}, {4, 3, 3, 3, 3}, {}}, "x has 4 channels, weight expects 3");
  error({{1, 3, 5, 5, 5}, {4, 3, 3, 3, 3}, {.stride = {1, 1, 0}}}, "stride must be at least 1");
}
template <int n> void InputGrad<n>::samples(Samples& s) {
  for (const Case<n>& c : cases<n>()) s({s.randn(result_of<n>(c)), s.randn(c.weight)}, InputGrad{c.options, c.x});
  const Case<n>& first = cases<n>()[0];
  s.error({s.randn(first.x), s.randn(first.weight)}, InputGrad{first.options, first.x},
          "the gradient must have the sizes of the result");
}
template <int n> void ConvThenRelu<n>::samples(Samples& s) {
  const auto add = [&](const Case<n>& c, Tensor bias) {
    const auto function = [=](const Tensors& t) { return convolve_relu<n>(c.options, t[0], t[1], t[2]); };
    const auto meaning = [=](const Tensors& t) { return relu(apply(Conv<n>{c.options}, t[0], t[1], t[2])); };
    s.call({s.randn(c.x), s.randn(c.weight), std::move(bias)}, function, meaning);
  };
  for (const Case<n>& c : cases<n>()) add(c, s.randn({c.weight[0]}));
  add(cases<n>()[0], Tensor());
  const Case<n>& first = cases<n>()[0];
  Dims wrong = first.weight;
  ++wrong[1];
  s.error_call({s.randn(first.x), s.randn(wrong), Tensor()},
               [](const Tensors& t) { return convolve_relu<n>({}, t[0], t[1], t[2]); }, "channels, weight expects");
}
template <int n> void InputGradRelu<n>::samples(Samples& s) {
  for (const Case<n>& c : cases<n>())
    s({s.randn(result_of<n>(c)), s.randn(c.weight), s.randn(c.x)}, InputGradRelu{c.options});
  const Case<n>& first = cases<n>()[0];
  s.error({s.randn(first.x), s.randn(first.weight), s.randn(first.x)}, InputGradRelu{first.options},
          "the gradient must have the sizes of the result");
}
template <int n> void WeightGrad<n>::samples(Samples& s) {
  for (const Case<n>& c : cases<n>()) s({s.randn(c.x), s.randn(result_of<n>(c))}, WeightGrad{c.options, c.weight});
  const Case<n>& first = cases<n>()[0];
  s.error({s.randn(first.x), s.randn(first.x)}, WeightGrad{first.options, first.weight},
          "the gradient must have the sizes of the result");
}

template <int n>
Tensor convolve_relu(const Options<n>& o, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (activation_runs_apart()) return relu(apply(Conv<n>{o}, x, weight, bias));
  const Tensor before = apply(ConvThenRelu<n>{{o}}, x, weight, bias);
  if (!before.requires_grad()) return before;
  const Tensor y = before.detach();
  record_activation(Activation::relu, before, y);
  return y;
}

}  // namespace

MANTISSA_OP(ConvThenRelu<2>)
MANTISSA_OP(InputGradRelu<2>)
MANTISSA_OP(ConvThenRelu<3>)
MANTISSA_OP(InputGradRelu<3>)
MANTISSA_OP(Conv<2>)
MANTISSA_OP(InputGrad<2>)
MANTISSA_OP(WeightGrad<2>)
MANTISSA_OP(Conv<3>)
MANTISSA_OP(InputGrad<3>)
MANTISSA_OP(WeightGrad<3>)
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dOptions options) {
  if (has_no_batch(x, 2)) return without_batch(conv2d(as_batch(x), weight, bias, options));
  return apply(Conv<2>{options}, x, weight, bias);
}
Tensor conv2d_input_grad(const Tensor& gradient, const Tensor& weight, const Dims& x_sizes, Conv2dOptions options) {
  return input_gradient<2>(options, x_sizes, gradient, weight);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv3dOptions options) {
  if (has_no_batch(x, 3)) return without_batch(conv3d(as_batch(x), weight, bias, options));
  return apply(Conv<3>{options}, x, weight, bias);
}
Tensor conv3d_input_grad(const Tensor& gradient, const Tensor& weight, const Dims& x_sizes, Conv3dOptions options) {
  return input_gradient<3>(options, x_sizes, gradient, weight);
}

Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dOptions options) {
  if (has_no_batch(x, 2)) return without_batch(conv2d_relu(as_batch(x), weight, bias, options));
  return convolve_relu<2>(options, x, weight, bias);
}
Tensor conv3d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv3dOptions options) {
  if (has_no_batch(x, 3)) return without_batch(conv3d_relu(as_batch(x), weight, bias, options));
  return convolve_relu<3>(options, x, weight, bias);
}

Tensor wide_input_gradient(const Tensor& g, const Tensor& weight, const Dims& x_sizes, const Conv2dOptions& options) {
  return apply(InputGrad<2>{options, x_sizes, true}, g, weight);
}
Tensor wide_input_gradient(const Tensor& g, const Tensor& weight, const Dims& x_sizes, const Conv3dOptions& options) {
  return apply(InputGrad<3>{options, x_sizes, true}, g, weight);
}

}  // namespace mantissa
