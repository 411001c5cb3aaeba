// Pooling over volumes [N, C, D, H, W]: maximum, average, and adaptive versions of both. Images and lines with
// dilation, a divisor or an adaptive maximum are handled as volumes of depth 1 (ops/pool_composed.cpp). Sizes follow
// PyTorch. Next: core/pool.h, core/cpu/pool_volume.cpp.
#include "core/ops.h"
#include "core/pool.h"
#include "ops/apply.h"
#include "ops/fused_activation.h"
#include "ops/no_batch.h"
#include "ops/onnx_pool.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(max_pool3d, const VolumePoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(max_pool3d_backward, const VolumePoolShape& shape, const View& dx, const View& g, const View& index)
MANTISSA_KERNEL(avg_pool3d, const VolumePoolShape& shape, const View& y, const View& x)
MANTISSA_KERNEL(avg_pool3d_backward, const VolumePoolShape& shape, const View& dx, const View& g)

namespace {

constexpr const char* dimension_names[] = {"depth", "height", "width"};

void check_input(const Tensor& x) {
  check(x.dim() == 5, "x must be [N, C, D, H, W] or [C, D, H, W]");
  check(x.is_floating(), "needs a floating dtype; cast integers first, as in cast(x, f32)");
  check(x.size(2) > 0 && x.size(3) > 0 && x.size(4) > 0, "the volume must not be empty");
}

// Windows of a fixed size, or (adaptive) as many as `output` says.
struct Windows {
  PerDim<3> kernel = 1;
  Pool3dOptions options = {};
  bool adaptive = false;
  PerDim<3> output = 1;
  Layout x_layout = Layout::contiguous;

  std::int64_t stride(int d) const { return options.stride[d] == 0 ? kernel[d] : options.stride[d]; }
  std::int64_t extent(int d) const { return std::int64_t{kernel[d] - 1} * options.dilation[d] + 1; }
  void check_attributes() const {
    for (int d = 0; d < 3; ++d) {
      check(output[d] >= 1, "the output size must be at least 1, found ", output[d]);
      check(kernel[d] >= 1, "the kernel's size must be at least 1, found ", kernel[d]);
      check(stride(d) >= 1, "stride must be at least 1, or 0 for the kernel's size; found ", options.stride[d]);
      check(options.dilation[d] >= 1, "dilation must be at least 1, found ", options.dilation[d]);
      check(options.padding[d] >= 0 && options.padding[d] <= extent(d) / 2,
            "padding must be between 0 and half the kernel's size, ", extent(d) / 2, ", found ", options.padding[d]);
    }
    check(options.divisor_override >= 0, "divisor_override must be positive, found ", options.divisor_override);
  }
  std::int64_t output_size(int d, std::int64_t in) const {
    if (adaptive) return output[d];
    const std::int64_t padded = in + std::int64_t{2} * options.padding[d];
    check(extent(d) <= padded, dimension_names[d], ": a kernel of ", extent(d), " does not fit into ", padded,
          " (with padding)");
    std::int64_t out = (padded - extent(d) + (options.ceil_mode ? stride(d) - 1 : 0)) / stride(d) + 1;
    // The last window must begin inside the volume or its left padding.
    if (options.ceil_mode && (out - 1) * stride(d) >= in + options.padding[d]) --out;
    return out;
  }
  Dims output_sizes(const Dims& x) const {
    return {x[0], x[1], output_size(0, x[2]), output_size(1, x[3]), output_size(2, x[4])};
  }
  OnnxPool<3> for_onnx(OnnxCall& c) const {
    OnnxPool<3> p{
        kernel, options.padding, options.dilation, {stride(0), stride(1), stride(2)}, options.count_include_pad};
    for (int d = 0; adaptive && d < 3; ++d) {
      const auto at = static_cast<std::size_t>(d);
      const std::int64_t in = c.x(0).size(d + 2);
      if (in % output[at] != 0) c.refuse("windows of several sizes, ", in, " elements into ", output[at]);
      p.kernel[at] = static_cast<int>(in) / output[at];
      p.stride[at] = p.kernel[at];
      p.padding[at] = 0;
      p.dilation[at] = 1;
    }
    return p;
  }
  VolumePoolShape shape(const Dims& x, const Dims& y) const {
    VolumePoolShape s{};
    for (int d = 0; d < 3; ++d) {
      s.in[d] = x[d + 2];
      s.out[d] = y[d + 2];
      s.kernel[d] = kernel[d];
      s.stride[d] = stride(d);
      s.padding[d] = options.padding[d];
      s.dilation[d] = options.dilation[d];
    }
    s.adaptive = adaptive;
    s.count_padding = options.count_include_pad;
    s.divisor = options.divisor_override;
    return s;
  }
  // The gradient of x gets x's layout, which a gradient of a single output pixel cannot reveal.
  Spec gradient_of_x(const Tensor& g, const Dims& x_sizes) const {
    Spec dx = like_layout(g, x_sizes);
    if (x_layout == Layout::channels_last) dx.layout = x_layout;
    return dx;
  }
  void check_gradient(const Tensor& g, const Dims& x_sizes) const {
    const Dims sizes = output_sizes(x_sizes);
    check(g.sizes() == sizes, "the gradient must have the sizes of the result, ", sizes);
  }
};

// --- maximum ---
// Scatters g to where the maxima were.
template <bool adaptive_op> struct MaxPool3dBackward : Windows {
  static constexpr auto name = adaptive_op ? "adaptive_max_pool3d_backward" : "max_pool3d_backward";
  static constexpr const char* args[] = {"gradient", "indices"};
  Dims x_sizes;

  Spec infer(const Tensor& g, const Tensor& index) const {
    check_gradient(g, x_sizes);
    check(index.sizes() == g.sizes() && index.dtype() == i64, "indices must be i64 and of the gradient's sizes");
    return gradient_of_x(g, x_sizes);
  }
  void run(const View& dx, const View& g, const View& index) const {
    kernels::max_pool3d_backward(g.device, shape(dx.sizes, g.sizes), dx, g, index);
  }
  static Tensor reference(const MaxPool3dBackward& op, const Tensor& g, const Tensor& index) {
    const Dims& x = op.x_sizes;
    const Dims flat{x[0], x[1], x[2] * x[3] * x[4]}, flat_out{x[0], x[1], g.size(2) * g.size(3) * g.size(4)};
    const Tensor zero = zeros(flat, {.dtype = g.dtype(), .device = g.device()});
    return reshape(scatter_add(zero, 2, reshape(index, flat_out), reshape(g, flat_out)), x);
  }
  static void samples(Samples& s);
};

// Values and, for each, the index in its volume.
template <bool adaptive_op> struct MaxPool3d : Windows {
  static constexpr auto name = adaptive_op ? "adaptive_max_pool3d" : "max_pool3d";
  static constexpr const char* args[] = {"x"};

  std::array<Spec, 2> infer(const Tensor& x) const {
    check_attributes();
    check_input(x);
    const Dims y = output_sizes(x.sizes());
    return {like_layout(x, y), in_layout_of(Spec{y, i64, x.device()}, x)};
  }
  void run(const std::array<View, 2>& y, const View& x) const {
    kernels::max_pool3d(x.device, shape(x.sizes, y[0].sizes), y[0], y[1], x);
  }
  static constexpr auto vjp() {
    return rules([](const MaxPool3d& op, Grad g, Out<1> index, Shape<0> x, ActivationOf<0> made, Unchanged<0> y) {
      return through_maximum(made, y, g, [&](const Tensor& gradient) {
        return apply(MaxPool3dBackward<adaptive_op>{op, x.sizes}, gradient, index);
      });
    });
  }
  void onnx(OnnxCall& c) const { c.result(for_onnx(c).max(c)); }
  static void samples(Samples& s);
};

// --- average: the operator and its transpose are each other's gradients ---
template <bool adaptive_op> Tensor average_backward(const Windows& w, const Dims& x, const Tensor& g);

template <bool adaptive_op> struct AvgPool3d : Windows {
  static constexpr auto name = adaptive_op ? "adaptive_avg_pool3d" : "avg_pool3d";
  static constexpr const char* args[] = {"x"};

  Spec infer(const Tensor& x) const {
    check_attributes();
    check_input(x);
    return like_layout(x, output_sizes(x.sizes()));
  }
  void run(const View& y, const View& x) const { kernels::avg_pool3d(x.device, shape(x.sizes, y.sizes), y, x); }
  static constexpr auto vjp() {
    return rules([](const AvgPool3d& op, Grad g, Shape<0> x) { return average_backward<adaptive_op>(op, x.sizes, g); });
  }
  void onnx(OnnxCall& c) const {
    if (!adaptive_op && options.divisor_override > 0) {  // the window's sum divided by it
      const Windows& w = *this;
      const double size = static_cast<double>(w.kernel[0]) * w.kernel[1] * w.kernel[2];
      OnnxPool<3> p = for_onnx(c);
      if (options.ceil_mode || !p.count_padding) c.refuse("divisor_override with ceil_mode or without counted padding");
      return c.result(c.node("Mul", {p.average(c), c.number(size / options.divisor_override, c.x(0).dtype())}));
    }
    c.result(for_onnx(c).average(c));
  }
  static void samples(Samples& s);
};
template <bool adaptive_op> struct AvgPool3dBackward : Windows {
  static constexpr auto name = adaptive_op ? "adaptive_avg_pool3d_backward" : "avg_pool3d_backward";
  static constexpr const char* args[] = {"gradient"};
  Dims x_sizes;

  Spec infer(const Tensor& g) const {
    check_gradient(g, x_sizes);
    return gradient_of_x(g, x_sizes);
  }
  void run(const View& dx, const View& g) const {
    kernels::avg_pool3d_backward(g.device, shape(dx.sizes, g.sizes), dx, g);
  }
  static constexpr auto vjp() {
    return rules([](const AvgPool3dBackward& op, Grad h) { return apply(AvgPool3d<adaptive_op>{op}, h); });
  }
  static void samples(Samples& s);
};
template <bool adaptive_op> Tensor average_backward(const Windows& w, const Dims& x, const Tensor& g) {
  return apply(AvgPool3dBackward<adaptive_op>{w, x}, g);
}

// --- samples ---
const Windows fixed[] = {
    {{2, 2, 2}, {}},
    {{1, 3, 2}, {.stride = {1, 1, 2}}},
    {{3, 3, 3}, {.stride = {2, 2, 2}, .padding = {1, 1, 1}}},
    {{2, 3, 3}, {.stride = {2, 2, 2}, .padding = {1, 1, 0}, .ceil_mode = true, .count_include_pad = false}},
};
const Windows dilated[] = {
    {{2, 2, 2}, {.stride = {1, 1, 1}, .dilation = {2, 1, 3}}},
    {{1, 3, 2}, {.stride = {1, 2, 2}, .padding = {0, 2, 1}, .ceil_mode = true, .dilation = {1, 2, 3}}}};
const Windows divided{{2, 2, 2}, {.stride = {1, 2, 1}, .divisor_override = 3}};
Windows adapted(PerDim<3> output, Layout x_layout = Layout::contiguous) {
  return {.adaptive = true, .output = output, .x_layout = x_layout};
}
const Windows adaptives[] = {adapted({1, 1, 1}), adapted({2, 3, 4}), adapted({5, 2, 1})};
const Dims sample_sizes{2, 2, 4, 5, 6};

template <bool adaptive_op> std::span<const Windows> plain_windows() {
  if constexpr (adaptive_op) return adaptives;
  else return fixed;
}
template <class Op> void error_samples(Samples& s, const Windows& good) {
  s.error({s.randn({3, 4, 4, 4})}, Op{good}, "x must be [N, C, D, H, W]");
  s.error({s.integers({1, 1, 4, 4, 4}, 0, 9)}, Op{good}, "needs a floating dtype");
  s.error({s.randn({1, 1, 4, 0, 4})}, Op{good}, "the volume must not be empty");
  if (good.adaptive) {
    s.error({s.randn({1, 1, 4, 4, 4})}, Op{adapted({1, 0, 1})}, "the output size must be at least 1");
    return;
  }
  s.error({s.randn({1, 1, 1, 4, 4})}, Op{{{2, 2, 2}, {}}}, "depth: a kernel of 2 does not fit into 1");
  s.error({s.randn({1, 1, 4, 4, 4})}, Op{{{2, 2, 2}, {.padding = {0, 2, 0}}}},
          "padding must be between 0 and half the kernel's size, 1");
  s.error({s.randn({1, 1, 4, 4, 4})}, Op{{{0, 2, 2}, {}}}, "the kernel's size must be at least 1");
  s.error({s.randn({1, 1, 4, 4, 4})}, Op{{{2, 2, 2}, {.stride = {-1, 1, 1}}}}, "stride must be at least 1");
  s.error({s.randn({1, 1, 4, 4, 4})}, Op{{{2, 2, 2}, {.dilation = {1, 0, 1}}}}, "dilation must be at least 1");
}
template <bool adaptive_op> void MaxPool3d<adaptive_op>::samples(Samples& s) {
  for (const Windows& w : plain_windows<adaptive_op>()) s({s.distinct(sample_sizes)}, MaxPool3d{w});
  if (!adaptive_op) for (const Windows& w : dilated) s({s.distinct(sample_sizes)}, MaxPool3d{w});
  s({s.distinct({0, 2, 3, 3, 3})}, MaxPool3d{plain_windows<adaptive_op>()[0]});
  error_samples<MaxPool3d>(s, plain_windows<adaptive_op>()[0]);
}
template <bool adaptive_op> void AvgPool3d<adaptive_op>::samples(Samples& s) {
  for (const Windows& w : plain_windows<adaptive_op>()) s({s.randn({2, 1, 4, 5, 4})}, AvgPool3d{w});
  if (!adaptive_op) s({s.randn({2, 1, 4, 5, 4})}, AvgPool3d{divided});
  s({s.randn({0, 2, 3, 3, 3})}, AvgPool3d{plain_windows<adaptive_op>()[0]});
  error_samples<AvgPool3d>(s, plain_windows<adaptive_op>()[0]);
}
template <bool adaptive_op> void MaxPool3dBackward<adaptive_op>::samples(Samples& s) {
  // The indices are those of maxima: others, which no window covers, would get nothing.
  const auto both = [&](const Windows& w) {
    const Tensor x = s.distinct(sample_sizes);
    const Tensor index = apply(MaxPool3d<adaptive_op>{w}, x)[1];
    s({s.randn(index.sizes()), index}, MaxPool3dBackward{w, sample_sizes});
  };
  for (const Windows& w : plain_windows<adaptive_op>()) both(w);
  if (!adaptive_op) for (const Windows& w : dilated) both(w);
  const Windows& first = plain_windows<adaptive_op>()[0];
  const Dims y = first.output_sizes(sample_sizes);
  s.error({s.randn({2, 1, 9, 9, 9}), s.integers({2, 1, 9, 9, 9}, 0, 9)}, MaxPool3dBackward{first, sample_sizes},
          "the gradient must have the sizes of the result");
  s.error({s.randn(y), s.randn(y)}, MaxPool3dBackward{first, sample_sizes}, "indices must be i64");
}
template <bool adaptive_op> void AvgPool3dBackward<adaptive_op>::samples(Samples& s) {
  const Dims x{2, 1, 4, 5, 4};
  for (const Windows& w : plain_windows<adaptive_op>()) s({s.randn(w.output_sizes(x))}, AvgPool3dBackward{w, x});
  s.error({s.randn({2, 1, 9, 9, 9})}, AvgPool3dBackward{plain_windows<adaptive_op>()[0], x},
          "the gradient must have the sizes of the result");
}

}  // namespace

MANTISSA_OP(MaxPool3d<false>)
MANTISSA_OP(MaxPool3d<true>)
MANTISSA_OP(MaxPool3dBackward<false>)
MANTISSA_OP(MaxPool3dBackward<true>)
MANTISSA_OP(AvgPool3d<false>)
MANTISSA_OP(AvgPool3d<true>)
MANTISSA_OP(AvgPool3dBackward<false>)
MANTISSA_OP(AvgPool3dBackward<true>)

namespace {
Windows fixed_windows(const Tensor& x, PerDim<3> kernel, const Pool3dOptions& options) {
  return {.kernel = kernel, .options = options, .x_layout = x.layout()};
}
}  // namespace

ValuesIndices max_pool3d_with_indices(const Tensor& x, PerDim<3> kernel, Pool3dOptions options) {
  if (has_no_batch(x, 3)) return without_batch(max_pool3d_with_indices(as_batch(x), kernel, options));
  auto y = apply(MaxPool3d<false>{fixed_windows(x, kernel, options)}, x);
  return {std::move(y[0]), std::move(y[1])};
}
ValuesIndices adaptive_max_pool3d_with_indices(const Tensor& x, PerDim<3> output) {
  if (has_no_batch(x, 3)) return without_batch(adaptive_max_pool3d_with_indices(as_batch(x), output));
  auto y = apply(MaxPool3d<true>{adapted(output, x.layout())}, x);
  return {std::move(y[0]), std::move(y[1])};
}
Tensor max_pool3d(const Tensor& x, PerDim<3> kernel, Pool3dOptions options) {
  return max_pool3d_with_indices(x, kernel, options).values;
}
Tensor adaptive_max_pool3d(const Tensor& x, PerDim<3> output) {
  return adaptive_max_pool3d_with_indices(x, output).values;
}
Tensor avg_pool3d(const Tensor& x, PerDim<3> kernel, Pool3dOptions options) {
  if (has_no_batch(x, 3)) return without_batch(avg_pool3d(as_batch(x), kernel, options));
  return apply(AvgPool3d<false>{fixed_windows(x, kernel, options)}, x);
}
Tensor adaptive_avg_pool3d(const Tensor& x, PerDim<3> output) {
  if (has_no_batch(x, 3)) return without_batch(adaptive_avg_pool3d(as_batch(x), output));
  return apply(AvgPool3d<true>{adapted(output, x.layout())}, x);
}

}  // namespace mantissa
