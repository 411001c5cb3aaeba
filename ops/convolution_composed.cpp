// Transposed convolution as the gradient of convolution, and 1-d convolution as a 2-d one over images of height 1. Read
// first: ops/convolution.cpp.
#include <algorithm>
#include <functional>

#include "core/ops.h"
#include "ops/compose.h"
#include "ops/pool_line.h"
#include "ops/wide_convolution.h"

namespace mantissa {
namespace {

// A weight [a, b, k] as [a, b, 1, k].
Tensor flat_kernel(const char* name, const Tensor& weight) {
  check(weight.dim() == 3, name, ": weight must have 3 dimensions, got ", weight);
  return unsqueeze(weight, 2);
}

// One name for convolution of images and volumes, so that the transposed one is written once.
template <class Options>
auto forward_options(const Options& o) {
  using Forward = std::conditional_t<std::is_same_v<Options, ConvTranspose2dOptions>, Conv2dOptions, Conv3dOptions>;
  return Forward{.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups};
}
template <class Options>
Tensor spread(const Tensor& x, const Tensor& weight, const Dims& sizes, const Options& o) {
  if constexpr (std::is_same_v<Options, ConvTranspose2dOptions>)
    return conv2d_input_grad(x, weight, sizes, forward_options(o));
  else return conv3d_input_grad(x, weight, sizes, forward_options(o));
}
template <class Options>
Tensor transposed(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias, const Options& given) {
  constexpr int n = static_cast<int>(sizeof(given.stride) / sizeof(int));
  check(x.dim() == n + 2, name, ": x must be ", n == 2 ? "[N, C, H, W]" : "[N, C, D, H, W]", ", got ", x);
  check(weight.dim() == n + 2, name, ": weight must be [in, out / groups, ", n == 2 ? "" : "depth, ",
        "height, width], got ", weight);
  check(weight.size(0) == x.size(1), name, ": x ", x, " has ", x.size(1), " channels, weight ", weight, " expects ",
        weight.size(0));
  check(given.groups >= 1, name, ": groups must be at least 1, found ", given.groups);
  Options o = given;
  Dims sizes{x.size(0), weight.size(1) * o.groups}, whole = sizes;  // whole: without padding or output_padding
  bool exceeds = false;
  for (int d = 0; d < n; ++d) {
    const auto at = static_cast<std::size_t>(d);
    check(o.output_padding[at] >= 0 && (o.output_padding[at] < o.stride[at] || o.output_padding[at] < o.dilation[at]),
          name, ": output_padding must be at least 0 and smaller than stride or dilation, found ",
          o.output_padding[at]);
    const std::int64_t extent = (weight.size(d + 2) - 1) * o.dilation[at] + 1;
    const std::int64_t border = o.padding[at];
    whole.push_back((x.size(d + 2) - 1) * o.stride[at] + extent);
    sizes.push_back(whole.back() - 2 * border + o.output_padding[at]);
    check(sizes.back() > 0, name, ": the result would have size ", sizes.back(), " in dimension ", d + 2, " for x ", x);
    exceeds = exceeds || o.output_padding[at] >= o.stride[at];
  }
  check(!bias.defined() || bias.sizes() == Dims{sizes[1]}, name, ": bias must be [", sizes[1], "], got ", bias);
  const Composite in(name, CastPolicy::lower, {&x, &weight, &bias});
  // With output_padding >= stride the result is not the gradient of any convolution: it is cut out of the unpadded one
  // and zeros are appended.
  const Dims made = exceeds ? whole : sizes;
  const auto fitted = [&](Tensor y) {
    Dims behind;
    for (int d = 0; exceeds && d < n; ++d) {
      const std::int64_t begin = given.padding[static_cast<std::size_t>(d)], end = begin + sizes[d + 2];
      y = slice(y, d + 2, std::min(begin, whole[d + 2]), std::min(end, whole[d + 2]));
      behind.insert(0, sizes[d + 2] - y.size(d + 2));
      behind.insert(0, 0);
    }
    return std::ranges::any_of(behind, std::identity{}) ? pad(y, behind) : y;
  };
  if (exceeds) o.padding = 0;
  if (!bias.defined()) return in.result(fitted(spread(in[0], in[1], made, o)));
  // With a bias, f16 and bf16 products stay in f32 until it is added, except under autocast.
  const bool widen = is_half(in[0].dtype()) && !in.in_region(in[0].device());
  const Tensor y = !widen                     ? spread(in[0], in[1], made, o)
                   : in[0].device().is_cpu() ? wide_input_gradient(in[0], in[1], made, forward_options(o))
                                             : spread(cast(in[0], f32), cast(in[1], f32), made, o);
  const Dtype result = widen ? x.dtype() : y.dtype(), inside = compute_dtype(y.dtype());
  Dims line = Dims::filled(n + 1, 1);
  line[0] = sizes[1];
  return in.result(cast(cast(fitted(y), inside) + cast(reshape(in[2], line), inside), result));
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, ConvTranspose2dOptions o) {
  if (has_no_batch(x, 2)) return without_batch(conv_transpose2d(as_batch(x), weight, bias, o));
  return transposed("conv_transpose2d", x, weight, bias, o);
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias, ConvTranspose3dOptions o) {
  if (has_no_batch(x, 3)) return without_batch(conv_transpose3d(as_batch(x), weight, bias, o));
  return transposed("conv_transpose3d", x, weight, bias, o);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv1dOptions o) {
  if (has_no_batch(x, 1)) return without_batch(conv1d(as_batch(x), weight, bias, o));
  check_line("conv1d", x);
  const Conv2dOptions flat{
      .stride = {1, o.stride}, .padding = {0, o.padding}, .dilation = {1, o.dilation}, .groups = o.groups};
  const Composite in("conv1d", CastPolicy::lower, {&x, &weight, &bias});
  return in.result(squeeze(conv2d(unsqueeze(in[0], 2), flat_kernel("conv1d", in[1]), in[2], flat), 2));
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, ConvTranspose1dOptions o) {
  if (has_no_batch(x, 1)) return without_batch(conv_transpose1d(as_batch(x), weight, bias, o));
  check_line("conv_transpose1d", x);
  const ConvTranspose2dOptions flat{.stride = {1, o.stride},
                                    .padding = {0, o.padding},
                                    .output_padding = {0, o.output_padding},
                                    .dilation = {1, o.dilation},
                                    .groups = o.groups};
  const Composite in("conv_transpose1d", CastPolicy::lower, {&x, &weight, &bias});
  return in.result(
      squeeze(conv_transpose2d(unsqueeze(in[0], 2), flat_kernel("conv_transpose1d", in[1]), in[2], flat), 2));
}

namespace {

void conv_transpose2d_samples(Samples& s) {
  const auto plain = [](const Tensors& x) { return conv_transpose2d(x[0], x[1], x[2]); };
  s.call({s.randn({2, 3, 4, 3}), s.randn({3, 2, 3, 2}), s.randn({2})}, plain);
  s.call({s.randn({1, 4, 3, 3}), s.randn({4, 1, 3, 3}), s.randn({2})}, [](const Tensors& x) {
    return conv_transpose2d(x[0], x[1], x[2],
                            {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}, .groups = 2});
  });
  s.call({s.randn({1, 2, 3, 3}), s.randn({2, 2, 2, 2}), Tensor()}, [](const Tensors& x) {
    return conv_transpose2d(x[0], x[1], x[2], {.dilation = {2, 1}});
  });
  s.call({s.randn({1, 2, 3, 3}), s.randn({2, 2, 2, 2}), s.randn({2})}, [](const Tensors& x) {
    return conv_transpose2d(x[0], x[1], x[2], {.stride = {1, 2}, .output_padding = {1, 2}, .dilation = {2, 3}});
  });
  s.error_call({s.randn({1, 3, 4, 4}), s.randn({2, 3, 3, 3}), Tensor()}, plain, "has 3 channels");
  s.call({s.randn({3, 4, 3}), s.randn({3, 2, 3, 2}), s.randn({2})}, plain);
  s.error_call({s.randn({4, 4}), s.randn({3, 3, 3, 3}), Tensor()}, plain, "x must be [N, C, H, W]");
  s.error_call({s.randn({1, 3, 4, 4}), s.randn({3, 3, 3, 3}), s.randn({2})}, plain, "bias must be [3]");
  s.error_call(
      {s.randn({1, 3, 4, 4}), s.randn({3, 3, 3, 3})},
      [](const Tensors& x) {
        return conv_transpose2d(x[0], x[1], {}, {.output_padding = {1, 0}});
      },
      "smaller than stride or dilation");
}
void conv1d_samples(Samples& s) {
  const auto plain = [](const Tensors& x) { return conv1d(x[0], x[1], x[2]); };
  s.call({s.randn({2, 3, 7}), s.randn({4, 3, 3}), s.randn({4})}, plain);
  s.call({s.randn({2, 4, 9}), s.randn({2, 2, 3}), Tensor()}, [](const Tensors& x) {
    return conv1d(x[0], x[1], x[2], {.stride = 2, .padding = 2, .dilation = 2, .groups = 2});
  });
  s.call({s.randn({3, 7}), s.randn({4, 3, 3}), s.randn({4})}, plain);
  s.error_call({s.randn({7}), s.randn({4, 3, 3}), Tensor()}, plain, "x must be [N, C, L]");
  s.error_call({s.randn({2, 3, 7}), s.randn({4, 3}), Tensor()}, plain, "weight must have 3 dimensions");
  s.error_call({s.randn({2, 3, 2}), s.randn({4, 3, 3}), Tensor()}, plain, "does not fit into 2");
}
void conv_transpose1d_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    return conv_transpose1d(x[0], x[1], x[2], {.stride = 2, .padding = 1, .output_padding = 1});
  };
  s.call({s.randn({2, 3, 5}), s.randn({3, 2, 3}), s.randn({2})}, f);
  s.call({s.randn({3, 5}), s.randn({3, 2, 3}), s.randn({2})}, f);
  s.error_call({s.randn({5}), s.randn({3, 2, 3}), Tensor()}, f, "x must be [N, C, L]");
}
void conv_transpose3d_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    return conv_transpose3d(
        x[0], x[1], x[2],
        {.stride = {2, 1, 2}, .padding = {1, 0, 1}, .output_padding = {1, 0, 0}, .dilation = {1, 2, 1}});
  };
  s.call({s.randn({1, 2, 2, 3, 2}), s.randn({2, 2, 2, 2, 3}), s.randn({2})}, f);
  s.call({s.randn({1, 4, 2, 2, 2}), s.randn({4, 1, 2, 2, 1}), Tensor()},
         [](const Tensors& x) { return conv_transpose3d(x[0], x[1], x[2], {.groups = 2}); });
  s.call({s.randn({2, 2, 3, 2}), s.randn({2, 2, 2, 2, 3}), s.randn({2})}, f);
  s.error_call({s.randn({2, 3, 2}), s.randn({2, 2, 2, 2, 3}), Tensor()}, f, "x must be [N, C, D, H, W]");
  s.error_call({s.randn({1, 3, 2, 3, 2}), s.randn({2, 2, 2, 2, 3}), Tensor()}, f, "has 3 channels");
  s.error_call({s.randn({1, 2, 2, 3, 2}), s.randn({2, 2, 2, 2}), Tensor()}, f,
               "weight must be [in, out / groups, depth, height, width]");
}
MANTISSA_COMPOSITE(conv_transpose2d, conv_transpose2d_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(conv1d, conv1d_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(conv_transpose1d, conv_transpose1d_samples, .autocast = CastPolicy::lower, .has_policy = true)
MANTISSA_COMPOSITE(conv_transpose3d, conv_transpose3d_samples, .autocast = CastPolicy::lower, .has_policy = true)

}  // namespace
}  // namespace mantissa
