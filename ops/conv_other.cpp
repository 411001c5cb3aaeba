// Transposed convolution as the gradient of conv2d, and one-dimensional convolution and pooling as
// two-dimensional ones over images of height 1. Read first: ops/conv2d.cpp, ops/pool.cpp.
#include "core/ops.h"
#include "ops/compose.h"

namespace mantissa {
namespace {

void check_line(const char* name, const Tensor& x) {
  check(x.dim() == 3, name, ": x must be [N, C, L], got ", x, x.dim() == 2 ? "; add a batch dimension with unsqueeze(x, 0)" : "");
}
// A weight [a, b, k] as [a, b, 1, k].
Tensor flat_kernel(const char* name, const Tensor& weight) {
  check(weight.dim() == 3, name, ": weight must have 3 dimensions, got ", weight);
  return unsqueeze(weight, 2);
}
Pool2dOptions flat_pool(const Pool1dOptions& o) {
  return {.stride = {1, o.stride}, .padding = {0, o.padding}, .ceil_mode = o.ceil_mode, .count_include_pad = o.count_include_pad};
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, ConvTranspose2dOptions o) {
  const char* name = "conv_transpose2d: ";
  check(x.dim() == 4, name, "x must be [N, C, H, W], got ", x, x.dim() == 3 ? "; add a batch dimension with unsqueeze(x, 0)" : "");
  check(weight.dim() == 4, name, "weight must be [in, out / groups, height, width], got ", weight);
  check(weight.size(0) == x.size(1), name, "x ", x, " has ", x.size(1), " channels, weight ", weight, " expects ", weight.size(0));
  check(o.groups >= 1, name, "groups must be at least 1, found ", o.groups);
  Dims sizes{x.size(0), weight.size(1) * o.groups, 0, 0};
  for (int d = 0; d < 2; ++d) {
    check(o.output_padding[d] >= 0 && (o.output_padding[d] < o.stride[d] || o.output_padding[d] < o.dilation[d]), name,
          "output_padding must be at least 0 and smaller than stride or dilation, found ", o.output_padding[d]);
    const std::int64_t extent = (weight.size(d + 2) - 1) * o.dilation[d] + 1;
    sizes[d + 2] = (x.size(d + 2) - 1) * o.stride[d] - 2 * o.padding[d] + extent + o.output_padding[d];
    check(sizes[d + 2] > 0, name, "the result would have size ", sizes[d + 2], " in dimension ", d + 2, " for x ", x);
  }
  check(!bias.defined() || bias.sizes() == Dims{sizes[1]}, name, "bias must be [", sizes[1], "], got ", bias);
  const Conv2dOptions forward{.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups};
  const Composite in("conv_transpose2d", CastPolicy::lower, {&x, &weight, &bias});
  if (!bias.defined()) return in.result(conv2d_input_grad(in[0], in[1], sizes, forward));
  // With a bias, halves stay in f32 until it is added, except where autocast asks for them.
  const bool widen = is_half(in[0].dtype()) && !in.in_region();
  const Tensor y = conv2d_input_grad(widen ? cast(in[0], f32) : in[0], widen ? cast(in[1], f32) : in[1], sizes, forward);
  const Dtype result = widen ? x.dtype() : y.dtype(), inside = compute_dtype(y.dtype());
  return in.result(cast(cast(y, inside) + cast(reshape(in[2], {sizes[1], 1, 1}), inside), result));
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv1dOptions o) {
  check_line("conv1d", x);
  const Conv2dOptions flat{.stride = {1, o.stride}, .padding = {0, o.padding}, .dilation = {1, o.dilation}, .groups = o.groups};
  const Composite in("conv1d", CastPolicy::lower, {&x, &weight, &bias});
  return in.result(squeeze(conv2d(unsqueeze(in[0], 2), flat_kernel("conv1d", in[1]), in[2], flat), 2));
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, ConvTranspose1dOptions o) {
  check_line("conv_transpose1d", x);
  const ConvTranspose2dOptions flat{.stride = {1, o.stride}, .padding = {0, o.padding}, .output_padding = {0, o.output_padding},
                                    .dilation = {1, o.dilation}, .groups = o.groups};
  const Composite in("conv_transpose1d", CastPolicy::lower, {&x, &weight, &bias});
  return in.result(squeeze(conv_transpose2d(unsqueeze(in[0], 2), flat_kernel("conv_transpose1d", in[1]), in[2], flat), 2));
}
Tensor max_pool1d(const Tensor& x, int kernel, Pool1dOptions o) {
  check_line("max_pool1d", x);
  return squeeze(max_pool2d(unsqueeze(x, 2), {1, kernel}, flat_pool(o)), 2);
}
Tensor avg_pool1d(const Tensor& x, int kernel, Pool1dOptions o) {
  check_line("avg_pool1d", x);
  return squeeze(avg_pool2d(unsqueeze(x, 2), {1, kernel}, flat_pool(o)), 2);
}
Tensor adaptive_avg_pool1d(const Tensor& x, int output) {
  check_line("adaptive_avg_pool1d", x);
  return squeeze(adaptive_avg_pool2d(unsqueeze(x, 2), {1, output}), 2);
}

namespace {

using F = Tensor (*)(const Tensors&);
void add(Samples& s, Tensors inputs, F f) { s.call(std::move(inputs), [f](const Tensors& x) { return Tensors{f(x)}; }); }
void refuse(Samples& s, Tensors inputs, F f, const char* fragment) {
  s.error_call(std::move(inputs), [f](const Tensors& x) { return Tensors{f(x)}; }, fragment);
}

void conv_transpose2d_samples(Samples& s) {
  const F plain = [](const Tensors& x) { return conv_transpose2d(x[0], x[1], x[2]); };
  add(s, {s.randn({2, 3, 4, 3}), s.randn({3, 2, 3, 2}), s.randn({2})}, plain);
  add(s, {s.randn({1, 4, 3, 3}), s.randn({4, 1, 3, 3}), s.randn({2})}, [](const Tensors& x) {
    return conv_transpose2d(x[0], x[1], x[2], {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}, .groups = 2});
  });
  add(s, {s.randn({1, 2, 3, 3}), s.randn({2, 2, 2, 2}), Tensor()}, [](const Tensors& x) {
    return conv_transpose2d(x[0], x[1], x[2], {.dilation = {2, 1}});
  });
  refuse(s, {s.randn({1, 3, 4, 4}), s.randn({2, 3, 3, 3}), Tensor()}, plain, "has 3 channels");
  refuse(s, {s.randn({3, 4, 4}), s.randn({3, 3, 3, 3}), Tensor()}, plain, "x must be [N, C, H, W]");
  refuse(s, {s.randn({1, 3, 4, 4}), s.randn({3, 3, 3, 3}), s.randn({2})}, plain, "bias must be [3]");
  refuse(s, {s.randn({1, 3, 4, 4}), s.randn({3, 3, 3, 3})},
         [](const Tensors& x) { return conv_transpose2d(x[0], x[1], {}, {.output_padding = {1, 0}}); }, "smaller than stride or dilation");
}
void conv1d_samples(Samples& s) {
  const F plain = [](const Tensors& x) { return conv1d(x[0], x[1], x[2]); };
  add(s, {s.randn({2, 3, 7}), s.randn({4, 3, 3}), s.randn({4})}, plain);
  add(s, {s.randn({2, 4, 9}), s.randn({2, 2, 3}), Tensor()}, [](const Tensors& x) {
    return conv1d(x[0], x[1], x[2], {.stride = 2, .padding = 2, .dilation = 2, .groups = 2});
  });
  refuse(s, {s.randn({3, 7}), s.randn({4, 3, 3}), Tensor()}, plain, "x must be [N, C, L]");
  refuse(s, {s.randn({2, 3, 7}), s.randn({4, 3}), Tensor()}, plain, "weight must have 3 dimensions");
  refuse(s, {s.randn({2, 3, 2}), s.randn({4, 3, 3}), Tensor()}, plain, "does not fit into 2");
}
void conv_transpose1d_samples(Samples& s) {
  const F f = [](const Tensors& x) { return conv_transpose1d(x[0], x[1], x[2], {.stride = 2, .padding = 1, .output_padding = 1}); };
  add(s, {s.randn({2, 3, 5}), s.randn({3, 2, 3}), s.randn({2})}, f);
  refuse(s, {s.randn({3, 5}), s.randn({3, 2, 3}), Tensor()}, f, "x must be [N, C, L]");
}
void max_pool1d_samples(Samples& s) {
  const F f = [](const Tensors& x) { return max_pool1d(x[0], 3, {.stride = 2, .padding = 1}); };
  add(s, {s.distinct({2, 3, 7})}, f);
  add(s, {s.distinct({2, 3, 8})}, [](const Tensors& x) { return max_pool1d(x[0], 2); });
  refuse(s, {s.randn({3, 7})}, f, "x must be [N, C, L]");
}
void avg_pool1d_samples(Samples& s) {
  const F f = [](const Tensors& x) { return avg_pool1d(x[0], 3, {.stride = 2, .padding = 1, .count_include_pad = false}); };
  add(s, {s.randn({2, 3, 7})}, f);
  refuse(s, {s.randn({3, 7})}, f, "x must be [N, C, L]");
}
void adaptive_avg_pool1d_samples(Samples& s) {
  const F f = [](const Tensors& x) { return adaptive_avg_pool1d(x[0], 3); };
  add(s, {s.randn({2, 3, 7})}, f);
  refuse(s, {s.randn({3, 7})}, f, "x must be [N, C, L]");
}
MANTISSA_COMPOSITE(conv_transpose2d, conv_transpose2d_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(conv1d, conv1d_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(conv_transpose1d, conv_transpose1d_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(max_pool1d, max_pool1d_samples)
MANTISSA_COMPOSITE(avg_pool1d, avg_pool1d_samples)
MANTISSA_COMPOSITE(adaptive_avg_pool1d, adaptive_avg_pool1d_samples)

}  // namespace
}  // namespace mantissa
