// Maximum and average pooling over windows of [N, C, H, W]. Sizes, padding and ceil_mode follow
// PyTorch; a NaN in a window is its maximum. Next: core/pool.h, core/cpu/pool.cpp.
#include "core/pool.h"

#include "core/ops.h"
#include "ops/apply.h"
#include "ops/fused_activation.h"
#include "ops/onnx_pool.h"
#include "ops/pool_line.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(max_pool2d, const PoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(max_pool2d_backward, const View& dx, const View& g, const View& index)
MANTISSA_KERNEL(max_pool2d_taps, const PoolShape& shape, const View& y, const View& taps, const View& x)
MANTISSA_KERNEL(max_pool2d_taps_backward, const PoolShape& shape, const View& dx, const View& g, const View& taps)
MANTISSA_KERNEL(avg_pool2d, const PoolShape& shape, const View& y, const View& x)
MANTISSA_KERNEL(avg_pool2d_backward, const PoolShape& shape, const View& dx, const View& g)

namespace {

void check_input(const Tensor& x) {
  check(x.dim() == 4, "x must be [N, C, H, W] or [C, H, W]");
  check(x.is_floating(), "needs a floating dtype; cast integers first, as in cast(x, f32)");
  check(x.size(2) > 0 && x.size(3) > 0, "the image must not be empty");
}

// The gradient of x gets x's layout, which a gradient of a single output pixel cannot reveal.
Spec gradient_of_x(const Tensor& g, const Dims& x_sizes, Layout x_layout) {
  Spec dx = like_layout(g, x_sizes);
  if (x_layout == Layout::channels_last) dx.layout = x_layout;
  return dx;
}

// Attributes of the pooling operators with a kernel size.
struct Pooling {
  PerDim<2> kernel = 0;
  Pool2dOptions options;
  Layout x_layout = Layout::contiguous;

  std::int64_t stride(int d) const { return options.stride[d] == 0 ? kernel[d] : options.stride[d]; }
  void check_attributes() const {
    for (int d = 0; d < 2; ++d) {
      check(kernel[d] >= 1, "the kernel's size must be at least 1, found ", kernel[d]);
      check(stride(d) >= 1, "stride must be at least 1, or 0 for the kernel's size; found ", options.stride[d]);
      check(options.padding[d] >= 0 && options.padding[d] <= kernel[d] / 2,
            "padding must be between 0 and half the kernel's size, ", kernel[d] / 2, ", found ", options.padding[d]);
    }
  }
  std::int64_t output_size(int d, std::int64_t in) const {
    const std::int64_t padded = in + std::int64_t{2} * options.padding[d];
    check(kernel[d] <= padded, d == 0 ? "height" : "width", ": a kernel of ", kernel[d], " does not fit into ", padded,
          " (with padding)");
    std::int64_t out = (padded - kernel[d] + (options.ceil_mode ? stride(d) - 1 : 0)) / stride(d) + 1;
    // The last window must begin inside the image or its left padding.
    if (options.ceil_mode && (out - 1) * stride(d) >= in + options.padding[d]) --out;
    return out;
  }
  Dims output_sizes(const Dims& x) const { return {x[0], x[1], output_size(0, x[2]), output_size(1, x[3])}; }
  OnnxPool<2> for_onnx() const {
    return {kernel, options.padding, {1, 1}, {stride(0), stride(1)}, options.count_include_pad};
  }
  // For kernels with taps: on the CPU they exist for channels-last images only.
  Layout layout_of_results(Device device) const { return device.is_cpu() ? Layout::channels_last : x_layout; }
  PoolShape shape(const Dims& x, const Dims& y) const {
    PoolShape s{};
    for (int d = 0; d < 2; ++d) {
      s.in[d] = x[d + 2];
      s.out[d] = y[d + 2];
      s.kernel[d] = kernel[d];
      s.stride[d] = stride(d);
      s.padding[d] = options.padding[d];
    }
    s.count_padding = options.count_include_pad;
    return s;
  }
};
const Pooling poolings[] = {
    {{2, 2}, {}},
    {{3, 2}, {.stride = {1, 2}}},
    {{3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {{3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}},
    {{3, 3}, {.stride = {2, 2}, .padding = {1, 0}, .ceil_mode = true, .count_include_pad = false}},
    {{1, 1}, {}},
};

// --- maximum ---

// Scatters g to where the maxima were.
struct MaxPool2dBackward {
  static constexpr auto name = "max_pool2d_backward";
  static constexpr const char* args[] = {"gradient", "indices"};
  Dims x_sizes;
  Layout x_layout = Layout::contiguous;

  Spec infer(const Tensor& g, const Tensor& index) const {
    check(g.dim() == 4 && x_sizes.rank() == 4 && g.size(0) == x_sizes[0] && g.size(1) == x_sizes[1],
          "the gradient must be [N, C, H, W] of the result");
    check(index.sizes() == g.sizes() && index.dtype() == i64, "indices must be i64 and of the gradient's sizes");
    return gradient_of_x(g, x_sizes, x_layout);
  }
  void run(const View& dx, const View& g, const View& index) const {
    kernels::max_pool2d_backward(dx.device, dx, g, index);
  }
  static Tensor reference(const MaxPool2dBackward& op, const Tensor& g, const Tensor& index) {
    const Dims& x = op.x_sizes;
    const Dims flat{x[0], x[1], x[2] * x[3]}, flat_out{x[0], x[1], g.size(2) * g.size(3)};
    const Tensor zero = zeros(flat, {.dtype = g.dtype(), .device = g.device()});
    return reshape(scatter_add(zero, 2, reshape(index, flat_out), reshape(g, flat_out)), x);
  }
  static void samples(Samples& s) {
    s({s.randn({2, 3, 2, 2}), s.integers({2, 3, 2, 2}, 0, 20)}, MaxPool2dBackward{{2, 3, 4, 5}});
    s({s.randn({0, 3, 2, 2}), s.integers({0, 3, 2, 2}, 0, 20)}, MaxPool2dBackward{{0, 3, 4, 5}});
    s.error({s.randn({2, 3, 2, 2}), s.randn({2, 3, 2, 2})}, MaxPool2dBackward{{2, 3, 4, 5}}, "indices must be i64");
  }
};

// Values and, for each, the index in its plane of H * W pixels.
struct MaxPool2d : Pooling {
  static constexpr auto name = "max_pool2d";
  static constexpr const char* args[] = {"x"};

  std::array<Spec, 2> infer(const Tensor& x) const {
    check_attributes();
    check_input(x);
    const Dims y = output_sizes(x.sizes());
    return {like_layout(x, y), in_layout_of(Spec{y, i64, x.device()}, x)};
  }
  void run(const std::array<View, 2>& y, const View& x) const {
    kernels::max_pool2d(x.device, shape(x.sizes, y[0].sizes), y[0], y[1], x);
  }
  static constexpr auto vjp() {
    return rules([](const MaxPool2d& op, Grad g, Out<1> index, Shape<0> x, ActivationOf<0> made, Unchanged<0> y) {
      return through_maximum(made, y, g, [&](const Tensor& gradient) {
        return apply(MaxPool2dBackward{x.sizes, op.x_layout}, gradient, index);
      });
    });
  }
  void onnx(OnnxCall& c) const { c.result(for_onnx().max(c)); }
  static void samples(Samples& s) {
    for (const Pooling& p : poolings) s({s.distinct({2, 3, 6, 7})}, MaxPool2d{p});
    s({s.distinct({2, 10, 6, 7})}, MaxPool2d{poolings[2]});  // several planes
    s({s.distinct({1, 1, 36, 38})}, MaxPool2d{poolings[0]});
    s({s.distinct({0, 3, 4, 4})}, MaxPool2d{poolings[0]});
    s.error({s.randn({3, 4, 4})}, MaxPool2d{poolings[0]}, "x must be [N, C, H, W]");
    s.error({s.randn({1, 1, 1, 4})}, MaxPool2d{poolings[0]}, "height: a kernel of 2 does not fit into 1");
    s.error({s.randn({1, 1, 4, 4})}, MaxPool2d{{{2, 2}, {.padding = {2, 0}}}},
            "padding must be between 0 and half the kernel's size, 1");
    s.error({s.randn({1, 1, 4, 4})}, MaxPool2d{{{0, 2}, {}}}, "the kernel's size must be at least 1");
    s.error({s.randn({1, 1, 4, 4})}, MaxPool2d{{{2, 2}, {.stride = {-1, 1}}}}, "stride must be at least 1");
    s.error({s.integers({1, 1, 4, 4}, 0, 9)}, MaxPool2d{poolings[0]}, "needs a floating dtype");
  }
};

// --- maximum with taps (the pixel's number within its window) instead of indices; on the CPU for channels-last images
// ---
struct MaxPool2dTapsBackward : Pooling {
  static constexpr auto name = "max_pool2d_taps_backward";
  static constexpr const char* args[] = {"gradient", "taps"};
  Dims x_sizes;

  Spec infer(const Tensor& g, const Tensor& taps) const {
    check_sizes(g, "gradient", output_sizes(x_sizes));
    check(taps.sizes() == g.sizes() && taps.dtype() == u8, "taps must be u8 and of the gradient's sizes");
    return gradient_of_x(g, x_sizes, layout_of_results(g.device()));
  }
  void run(const View& dx, const View& g, const View& taps) const {
    kernels::max_pool2d_taps_backward(g.device, shape(dx.sizes, g.sizes), dx, g, taps);
  }
  // Converts taps to pixel indices, then as with indices.
  static Tensor reference(const MaxPool2dTapsBackward& op, const Tensor& g, const Tensor& taps) {
    const auto number = [](std::int64_t n) { return scalar(static_cast<double>(n), {.dtype = i64}); };
    const auto first = [&](int d) {  // pixel of each output's first tap along d, shaped to broadcast
      const Tensor o =
          arange(g.size(d + 2), {.device = g.device()}) * number(op.stride(d)) - number(op.options.padding[d]);
      return reshape(o, d == 0 ? Dims{1, 1, g.size(2), 1} : Dims{1, 1, 1, g.size(3)});
    };
    const Tensor tap = cast(taps, i64), width = number(op.kernel[1]);
    const Tensor row = first(0) + floor_divide(tap, width), column = first(1) + remainder(tap, width);
    const Tensor index = contiguous(row * number(op.x_sizes[3]) + column);
    return MaxPool2dBackward::reference(MaxPool2dBackward{op.x_sizes}, g, index);
  }
  static void samples(Samples& s);
};

struct MaxPool2dTaps : Pooling {
  static constexpr auto name = "max_pool2d_taps";
  static constexpr const char* args[] = {"x"};

  static bool fits(const PerDim<2>& kernel) { return std::int64_t{kernel[0]} * kernel[1] <= 256; }
  std::array<Spec, 2> infer(const Tensor& x) const {
    check_attributes();
    check_input(x);
    check(fits(kernel), "is for windows of at most 256 pixels");
    Spec y = like(x, output_sizes(x.sizes())), taps = y;
    taps.dtype = u8;
    y.layout = taps.layout = layout_of_results(x.device());
    return {y, taps};
  }
  void run(const std::array<View, 2>& y, const View& x) const {
    kernels::max_pool2d_taps(x.device, shape(x.sizes, y[0].sizes), y[0], y[1], x);
  }
  static constexpr auto vjp() {
    return rules([](const MaxPool2dTaps& op, Grad g, Out<1> taps, Shape<0> x, ActivationOf<0> made, Unchanged<0> y) {
      return through_maximum(made, y, g, [&](const Tensor& gradient) {
        return apply(MaxPool2dTapsBackward{op, x.sizes}, gradient, taps);
      });
    });
  }
  void onnx(OnnxCall& c) const { c.result(for_onnx().max(c)); }
  static void samples(Samples& s) {
    const auto add = [&](const Dims& sizes, Pooling p) {
      for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
        p.x_layout = layout;
        s.call(
            {s.distinct(sizes)}, [=](const Tensors& x) { return apply(MaxPool2dTaps{p}, x[0])[0]; },
            [=](const Tensors& x) { return apply(MaxPool2d{p}, x[0])[0]; });
      }
    };
    for (const Pooling& p : poolings) add({2, 3, 6, 7}, p);
    add({2, 21, 6, 4}, poolings[0]);
    add({0, 3, 4, 4}, poolings[0]);
    s.error({s.randn({3, 4, 4})}, MaxPool2dTaps{poolings[0]}, "x must be [N, C, H, W]");
    s.error({s.randn({1, 1, 32, 32})}, MaxPool2dTaps{{{32, 32}, {}}}, "windows of at most 256 pixels");
  }
};
void MaxPool2dTapsBackward::samples(Samples& s) {
  const Dims x{2, 3, 6, 7};
  for (const Pooling& p : poolings) {
    const Dims y = p.output_sizes(x);
    const Tensor taps = apply(MaxPool2dTaps{p}, s.distinct(x))[1];
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
      MaxPool2dTapsBackward op{p, x};
      op.x_layout = layout;
      s.call(
          {s.randn(y)}, [=](const Tensors& g) { return apply(op, g[0], taps.to(g[0].device())); },
          [=](const Tensors& g) { return reference(op, g[0], taps.to(g[0].device())); });
    }
  }
  s.error({s.randn({2, 3, 3, 3}), s.randn({2, 3, 3, 3})}, MaxPool2dTapsBackward{poolings[0], x}, "taps must be u8");
}
Layout layout_for(const Tensor& x) { return x.dim() == 4 ? x.layout() : Layout::contiguous; }

// --- average: the operator and its transpose are each other's gradients ---
Tensor avg_pool_backward(const Pooling& p, const Dims& x, const Tensor& g);

struct AvgPool2d : Pooling {
  static constexpr auto name = "avg_pool2d";
  static constexpr const char* args[] = {"x"};

  Spec infer(const Tensor& x) const {
    check_attributes();
    check_input(x);
    return like_layout(x, output_sizes(x.sizes()));
  }
  void run(const View& y, const View& x) const { kernels::avg_pool2d(x.device, shape(x.sizes, y.sizes), y, x); }
  static constexpr auto vjp() {
    return rules([](const AvgPool2d& op, Grad g, Shape<0> x) { return avg_pool_backward(op, x.sizes, g); });
  }
  void onnx(OnnxCall& c) const { c.result(for_onnx().average(c)); }
  static void samples(Samples& s) {
    for (const Pooling& p : poolings) s({s.randn({2, 3, 6, 7})}, AvgPool2d{p});
    s({s.randn({2, 10, 6, 7})}, AvgPool2d{poolings[4]});
    s({s.randn({0, 3, 4, 4})}, AvgPool2d{poolings[0]});
    s.error({s.randn({3, 4, 4})}, AvgPool2d{poolings[0]}, "x must be [N, C, H, W]");
    s.error({s.randn({1, 1, 4, 4})}, AvgPool2d{{{2, 2}, {.padding = {2, 0}}}},
            "padding must be between 0 and half the kernel's size, 1");
  }
};

struct AvgPool2dBackward : Pooling {
  static constexpr auto name = "avg_pool2d_backward";
  static constexpr const char* args[] = {"gradient"};
  Dims x_sizes;

  Spec infer(const Tensor& g) const {
    check(g.sizes() == output_sizes(x_sizes), "the gradient must have the sizes of the result, ",
          output_sizes(x_sizes));
    return gradient_of_x(g, x_sizes, x_layout);
  }
  void run(const View& dx, const View& g) const {
    kernels::avg_pool2d_backward(g.device, shape(dx.sizes, g.sizes), dx, g);
  }
  static constexpr auto vjp() {
    return rules([](const AvgPool2dBackward& op, Grad h) { return apply(AvgPool2d{op}, h); });
  }
  static void samples(Samples& s) {
    const Tensor x = s.randn({2, 3, 6, 7});
    for (const Pooling& p : poolings) s({s.randn(p.output_sizes(x.sizes()))}, AvgPool2dBackward{p, x.sizes()});
    s.error({x}, AvgPool2dBackward{poolings[0], x.sizes()}, "the gradient must have the sizes of the result");
  }
};
Tensor avg_pool_backward(const Pooling& p, const Dims& x, const Tensor& g) { return apply(AvgPool2dBackward{p, x}, g); }

// --- adaptive average: an output size instead of a kernel ---
PoolShape adaptive_shape(const Dims& x, const Dims& y) {
  PoolShape s{};
  s.adaptive = true;
  for (int d = 0; d < 2; ++d) {
    s.in[d] = x[d + 2];
    s.out[d] = y[d + 2];
  }
  return s;
}
Tensor adaptive_backward(const Dims& x, Layout x_layout, const Tensor& g);

struct AdaptiveAvgPool2d {
  static constexpr auto name = "adaptive_avg_pool2d";
  static constexpr const char* args[] = {"x"};
  PerDim<2> output = 0;
  Layout x_layout = Layout::contiguous;

  Spec infer(const Tensor& x) const {
    check_input(x);
    check(output[0] >= 1 && output[1] >= 1, "the output size must be at least 1, found ", output[0], " x ", output[1]);
    check(output[0] < INT32_MAX && output[1] < INT32_MAX, "the output size ", output[0], " x ", output[1],
          " is too large");
    return like_layout(x, {x.size(0), x.size(1), output[0], output[1]});
  }
  void run(const View& y, const View& x) const {
    kernels::avg_pool2d(x.device, adaptive_shape(x.sizes, y.sizes), y, x);
  }
  static constexpr auto vjp() {
    return rules(
        [](const AdaptiveAvgPool2d& op, Grad g, Shape<0> x) { return adaptive_backward(x.sizes, op.x_layout, g); });
  }
  void onnx(OnnxCall& c) const {
    if (output == PerDim<2>{1, 1}) return c.result(c.node("GlobalAveragePool", {c.in(0)}));
    const std::int64_t in[2] = {c.x(0).size(2), c.x(0).size(3)};
    if (in[0] % output[0] == 0 && in[1] % output[1] == 0) {
      const PerDim<2> step{static_cast<int>(in[0]) / output[0], static_cast<int>(in[1]) / output[1]};
      return c.result(OnnxPool<2>{step, {0, 0}, {1, 1}, {step[0], step[1]}, true}.average(c));
    }
    // Windows of different sizes: rows * x * columns, with averaging matrices.
    const auto averages = [&](int d, bool turned) {
      const std::int64_t n = in[d], m = output[static_cast<std::size_t>(d)];
      std::vector<double> w(static_cast<std::size_t>(n * m), 0);
      for (std::int64_t o = 0; o < m; ++o) {
        const std::int64_t from = o * n / m, to = ((o + 1) * n + m - 1) / m;
        for (std::int64_t i = from; i < to; ++i)
          w[static_cast<std::size_t>(turned ? i * m + o : o * n + i)] = 1.0 / static_cast<double>(to - from);
      }
      return c.table(w, turned ? Dims{n, m} : Dims{m, n}, c.x(0).dtype());
    };
    c.result(c.node("MatMul", {c.node("MatMul", {averages(0, false), c.in(0)}), averages(1, true)}));
  }
  static void samples(Samples& s) {
    s({s.randn({2, 3, 6, 7})}, AdaptiveAvgPool2d{{1, 1}});
    s({s.randn({2, 3, 6, 7})}, AdaptiveAvgPool2d{{4, 3}});
    s({s.randn({2, 10, 6, 7})}, AdaptiveAvgPool2d{{1, 1}});
    s({s.randn({1, 2, 2, 3})}, AdaptiveAvgPool2d{{3, 5}});
    s({s.randn({0, 2, 2, 3})}, AdaptiveAvgPool2d{{1, 1}});
    s.error({s.randn({1, 1, 4, 4})}, AdaptiveAvgPool2d{{0, 1}}, "the output size must be at least 1");
    s.error({s.randn({4, 4})}, AdaptiveAvgPool2d{{1, 1}}, "x must be [N, C, H, W]");
  }
};

struct AdaptiveAvgPool2dBackward {
  static constexpr auto name = "adaptive_avg_pool2d_backward";
  static constexpr const char* args[] = {"gradient"};
  Dims x_sizes;
  Layout x_layout = Layout::contiguous;

  Spec infer(const Tensor& g) const {
    check_input(g);
    check_sizes(g, "gradient", {x_sizes[0], x_sizes[1], g.size(2), g.size(3)});
    check(g.size(2) > 0 && g.size(3) > 0, "the gradient is empty");
    return gradient_of_x(g, x_sizes, x_layout);
  }
  void run(const View& dx, const View& g) const {
    kernels::avg_pool2d_backward(g.device, adaptive_shape(dx.sizes, g.sizes), dx, g);
  }
  static constexpr auto vjp() {
    return rules([](const AdaptiveAvgPool2dBackward& op, Grad h, Shape<0> g) {
      return apply(AdaptiveAvgPool2d{{static_cast<int>(g.sizes[2]), static_cast<int>(g.sizes[3])}, op.x_layout}, h);
    });
  }
  static void samples(Samples& s) {
    s({s.randn({2, 3, 4, 3})}, AdaptiveAvgPool2dBackward{{2, 3, 6, 7}});
    s({s.randn({2, 3, 1, 1})}, AdaptiveAvgPool2dBackward{{2, 3, 6, 7}});
  }
};
Tensor adaptive_backward(const Dims& x, Layout x_layout, const Tensor& g) {
  return apply(AdaptiveAvgPool2dBackward{x, x_layout}, g);
}

}  // namespace

MANTISSA_OP(MaxPool2d)
MANTISSA_OP(MaxPool2dBackward)
MANTISSA_OP(MaxPool2dTaps)
MANTISSA_OP(MaxPool2dTapsBackward)
MANTISSA_OP(AvgPool2d)
MANTISSA_OP(AvgPool2dBackward)
MANTISSA_OP(AdaptiveAvgPool2d)
MANTISSA_OP(AdaptiveAvgPool2dBackward)
ValuesIndices max_pool2d_with_indices(const Tensor& x, PerDim<2> kernel, Pool2dOptions options) {
  if (has_no_batch(x, 2)) return without_batch(max_pool2d_with_indices(as_batch(x), kernel, options));
  if (options.dilation != PerDim<2>{1, 1}) {
    check_plane("max_pool2d", x);
    ValuesIndices y = max_pool3d_with_indices(unsqueeze(x, 2), {1, kernel[0], kernel[1]}, as_volume(options));
    return {squeeze(y.values, 2), squeeze(y.indices, 2)};
  }
  auto y = apply(MaxPool2d{{kernel, options, layout_for(x)}}, x);
  return {std::move(y[0]), std::move(y[1])};
}
Tensor max_pool2d(const Tensor& x, PerDim<2> kernel, Pool2dOptions options) {
  if (has_no_batch(x, 2)) return without_batch(max_pool2d(as_batch(x), kernel, options));
  const Layout layout = layout_for(x);
  const bool has_taps = layout == Layout::channels_last || !x.device().is_cpu();
  if (has_taps && options.dilation == PerDim<2>{1, 1} && MaxPool2dTaps::fits(kernel)) {
    return apply(MaxPool2dTaps{{kernel, options, layout}}, x)[0];
  }
  return max_pool2d_with_indices(x, kernel, options).values;
}
Tensor avg_pool2d(const Tensor& x, PerDim<2> kernel, Pool2dOptions options) {
  if (has_no_batch(x, 2)) return without_batch(avg_pool2d(as_batch(x), kernel, options));
  if (options.divisor_override == 0) return apply(AvgPool2d{{kernel, options, layout_for(x)}}, x);
  check_plane("avg_pool2d", x);
  return squeeze(avg_pool3d(unsqueeze(x, 2), {1, kernel[0], kernel[1]}, as_volume(options)), 2);
}
Tensor adaptive_avg_pool2d(const Tensor& x, PerDim<2> output) {
  if (has_no_batch(x, 2)) return without_batch(adaptive_avg_pool2d(as_batch(x), output));
  return apply(AdaptiveAvgPool2d{output, layout_for(x)}, x);
}

}  // namespace mantissa
