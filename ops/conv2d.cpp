// 2-d convolution (cross-correlation, as everywhere in deep learning) and its gradients. All three
// operators are bilinear and are each other's gradients, so every order of derivative exists.
// Next: core/conv.h.
#include "core/conv.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {
namespace {

Tensor input_gradient(const Conv2dOptions& o, const Dims& x, const Tensor& g, const Tensor& weight);
Tensor weight_gradient(const Conv2dOptions& o, const Dims& weight, const Tensor& x, const Tensor& g);

void check_options(const Conv2dOptions& o) {
  for (int d = 0; d < 2; ++d) {
    check(o.stride[d] >= 1, "stride must be at least 1, found ", o.stride[d]);
    check(o.dilation[d] >= 1, "dilation must be at least 1, found ", o.dilation[d]);
    check(o.padding[d] >= 0, "padding must not be negative, found ", o.padding[d]);
  }
  check(o.groups >= 1, "groups must be at least 1, found ", o.groups);
}

std::int64_t output_size(const Conv2dOptions& o, int d, std::int64_t in, std::int64_t kernel) {
  const std::int64_t padded = in + 2 * o.padding[d], extent = (kernel - 1) * o.dilation[d] + 1;
  check(extent <= padded, d == 0 ? "height" : "width", ": a kernel that reaches over ", extent, " does not fit into ", padded,
        " (with padding)");
  return (padded - extent) / o.stride[d] + 1;
}

// Checks x [N, C, H, W] against weight [O, C / groups, kh, kw]; the sizes of the result.
Dims check_shapes(const Conv2dOptions& o, const Dims& x, const Dims& weight) {
  check_options(o);
  check(x.rank() == 4, "x must be [N, C, H, W]", x.rank() == 3 ? "; add a batch dimension with unsqueeze(x, 0)" : "");
  check(weight.rank() == 4, "weight must be [out, in / groups, height, width]");
  check(weight[0] > 0 && weight[1] > 0 && weight[2] > 0 && weight[3] > 0, "weight must not be empty");
  check(weight[1] * o.groups == x[1], "x has ", x[1], " channels, weight with ", o.groups, " groups expects ", weight[1] * o.groups);
  check(weight[0] % o.groups == 0, weight[0], " output channels do not divide into ", o.groups, " groups");
  return {x[0], weight[0], output_size(o, 0, x[2], weight[2]), output_size(o, 1, x[3], weight[3])};
}
void check_dtypes(const Tensor& a, const Tensor& b) {
  check(a.is_floating() && b.is_floating(), "needs floating dtypes; cast integers first, as in cast(x, f32)");
  check(a.dtype() == b.dtype(), "dtypes ", a.dtype(), " and ", b.dtype(), " differ; cast one of them");
}

ConvShape shape_of(const Conv2dOptions& o, const Dims& x, const Dims& weight, const Dims& y) {
  ConvShape s{};
  s.batch = x[0];
  s.in_channels = x[1];
  s.out_channels = y[1];
  s.groups = o.groups;
  for (int d = 0; d < 2; ++d) {
    s.in[d] = x[d + 2];
    s.out[d] = y[d + 2];
    s.kernel[d] = weight[d + 2];
    s.stride[d] = o.stride[d];
    s.padding[d] = o.padding[d];
    s.dilation[d] = o.dilation[d];
  }
  return s;
}

struct Conv2d {
  static constexpr auto name = "conv2d";
  static constexpr const char* args[] = {"x", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::lower;
  Conv2dOptions options;

  Spec infer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    const Dims y = check_shapes(options, x.sizes(), weight.sizes());
    check_dtypes(x, weight);
    if (bias) {
      check_dtypes(x, bias);
      check(bias.sizes() == Dims{y[1]}, "bias must be [", y[1], "], one number per output channel");
    }
    return like(x, y);
  }
  void run(const View& y, const View& x, const View& weight, const View& bias) const {
    kernels::conv2d(y.device, ConvPass::forward, shape_of(options, x.sizes, weight.sizes, y.sizes), y, x, weight, bias);
  }
  static constexpr auto vjp() {
    return rules(
        [](const Conv2d& op, Grad g, Shape<0> x, In<1> weight) { return input_gradient(op.options, x.sizes, g, weight); },
        [](const Conv2d& op, Grad g, In<0> x, Shape<1> weight) { return weight_gradient(op.options, weight.sizes, x, g); },
        [](Grad g) { return sum(g, {0, 2, 3}); });
  }
  static void samples(Samples& s);
};

// The gradient of conv2d with respect to x: every output pixel spread over the window it came from.
struct Conv2dInputGrad {
  static constexpr auto name = "conv2d_input_grad";
  static constexpr const char* args[] = {"gradient", "weight"};
  static constexpr auto autocast = CastPolicy::lower;
  Conv2dOptions options;
  Dims x_sizes;

  Spec infer(const Tensor& g, const Tensor& weight) const {
    const Dims y = check_shapes(options, x_sizes, weight.sizes());
    check(g.sizes() == y, "the gradient must have the sizes of the result, ", y);
    check_dtypes(g, weight);
    return like(g, x_sizes);
  }
  void run(const View& dx, const View& g, const View& weight) const {
    kernels::conv2d(g.device, ConvPass::input_gradient, shape_of(options, dx.sizes, weight.sizes, g.sizes), dx, g, weight, View{});
  }
  static constexpr auto vjp() {
    return rules([](const Conv2dInputGrad& op, Grad h, In<1> weight) { return conv2d(h, weight, {}, op.options); },
                 [](const Conv2dInputGrad& op, Grad h, In<0> g, Shape<1> weight) { return weight_gradient(op.options, weight.sizes, h, g); });
  }
  static void samples(Samples& s);
};

struct Conv2dWeightGrad {
  static constexpr auto name = "conv2d_weight_grad";
  static constexpr const char* args[] = {"x", "gradient"};
  static constexpr auto autocast = CastPolicy::lower;
  Conv2dOptions options;
  Dims weight_sizes;

  Spec infer(const Tensor& x, const Tensor& g) const {
    const Dims y = check_shapes(options, x.sizes(), weight_sizes);
    check(g.sizes() == y, "the gradient must have the sizes of the result, ", y);
    check_dtypes(x, g);
    return like(x, weight_sizes);
  }
  void run(const View& dw, const View& x, const View& g) const {
    kernels::conv2d(g.device, ConvPass::weight_gradient, shape_of(options, x.sizes, dw.sizes, g.sizes), dw, x, g, View{});
  }
  static constexpr auto vjp() {
    return rules([](const Conv2dWeightGrad& op, Grad v, Shape<0> x, In<1> g) { return input_gradient(op.options, x.sizes, g, v); },
                 [](const Conv2dWeightGrad& op, Grad v, In<0> x) { return conv2d(x, v, {}, op.options); });
  }
  static void samples(Samples& s);
};

Tensor input_gradient(const Conv2dOptions& o, const Dims& x, const Tensor& g, const Tensor& weight) {
  return apply(Conv2dInputGrad{o, x}, g, weight);
}
Tensor weight_gradient(const Conv2dOptions& o, const Dims& weight, const Tensor& x, const Tensor& g) {
  return apply(Conv2dWeightGrad{o, weight}, x, g);
}

// --- samples: one list of shapes serves the three operators ---
struct Case { Dims x, weight; Conv2dOptions options; };
const Case cases[] = {
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
Dims result_of(const Case& c) { return check_shapes(c.options, c.x, c.weight); }

void Conv2d::samples(Samples& s) {
  for (const Case& c : cases) s({s.randn(c.x), s.randn(c.weight), s.randn({c.weight[0]})}, Conv2d{c.options});
  s({s.randn({2, 3, 5, 5}), s.randn({2, 3, 3, 3}), Tensor()}, Conv2d{});
  const auto error = [&](const Case& c, const char* fragment) {
    s.error({s.randn(c.x), s.randn(c.weight), Tensor()}, Conv2d{c.options}, fragment);
  };
  error({{2, 3, 5, 5}, {4, 2, 3, 3}, {}}, "x has 3 channels, weight with 1 groups expects 2");
  error({{3, 5, 5}, {4, 3, 3, 3}, {}}, "x must be [N, C, H, W]; add a batch dimension");
  error({{2, 3, 5, 5}, {4, 3, 3}, {}}, "weight must be [out, in / groups, height, width]");
  error({{2, 3, 2, 5}, {4, 3, 3, 3}, {}}, "height: a kernel that reaches over 3 does not fit into 2");
  error({{2, 3, 5, 5}, {4, 3, 3, 3}, {.stride = {0, 1}}}, "stride must be at least 1");
  error({{2, 3, 5, 5}, {4, 3, 3, 3}, {.padding = {-1, 1}}}, "padding must not be negative");
  error({{2, 3, 5, 5}, {4, 3, 3, 3}, {.dilation = {1, 0}}}, "dilation must be at least 1");
  error({{2, 4, 5, 5}, {3, 2, 3, 3}, {.groups = 2}}, "3 output channels do not divide into 2 groups");
  s.error({s.randn({1, 1, 3, 3}), s.randn({2, 1, 1, 1}), s.randn({3})}, Conv2d{}, "bias must be [2]");
  s.error({s.integers({1, 1, 3, 3}, 0, 3), s.randn({2, 1, 1, 1}), Tensor()}, Conv2d{}, "needs floating dtypes");
}
void Conv2dInputGrad::samples(Samples& s) {
  for (const Case& c : cases) s({s.randn(result_of(c)), s.randn(c.weight)}, Conv2dInputGrad{c.options, c.x});
  s.error({s.randn({1, 2, 3, 3}), s.randn({2, 2, 3, 3})}, Conv2dInputGrad{{}, {1, 2, 6, 6}}, "the gradient must have the sizes of the result");
}
void Conv2dWeightGrad::samples(Samples& s) {
  for (const Case& c : cases) s({s.randn(c.x), s.randn(result_of(c))}, Conv2dWeightGrad{c.options, c.weight});
  s.error({s.randn({1, 2, 6, 6}), s.randn({1, 2, 3, 3})}, Conv2dWeightGrad{{}, {2, 2, 3, 3}}, "the gradient must have the sizes of the result");
}

}  // namespace

MANTISSA_OP(Conv2d)
MANTISSA_OP(Conv2dInputGrad)
MANTISSA_OP(Conv2dWeightGrad)
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dOptions options) {
  return apply(Conv2d{options}, x, weight, bias);
}
Tensor conv2d_input_grad(const Tensor& gradient, const Tensor& weight, const Dims& x_sizes, Conv2dOptions options) {
  return input_gradient(options, x_sizes, gradient, weight);
}

}  // namespace mantissa
