#include "nn/deform_conv.h"

#include <bit>

#include "amp/autocast.h"

namespace mantissa::nn {
namespace {

// Sampling positions of a regular convolution: for each kernel element and output position, [kernel, result].
Tensor regular(std::int64_t kernel, std::int64_t result, int stride, int padding, int dilation, const Tensor& like) {
  const TensorOptions o{.dtype = like.dtype(), .device = like.device()};
  const Tensor tap = arange(0, static_cast<double>(kernel), 1, o) * dilation,
               start = arange(0, static_cast<double>(result), 1, o) * stride - padding;
  return unsqueeze(tap, 1) + start;
}

// Converts pixel positions to grid_sample's range of -1 to 1, for a size that is a power of two: integral positions are
// then exact, and their gradient is that of the pixel on the right.
Tensor normalized(const Tensor& position, std::int64_t size) {
  const auto n = static_cast<double>(size);
  return position * (2 / n) + (1 / n - 1);
}
std::int64_t power_of_two(std::int64_t size) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size)));
}

std::int64_t result_size(std::int64_t size, std::int64_t kernel, int stride, int padding, int dilation) {
  check(stride >= 1 && dilation >= 1 && padding >= 0, "deform_conv2d: stride and dilation must be positive and padding "
        "not negative, got ", stride, ", ", dilation, " and ", padding);
  const std::int64_t n = size + 2 * padding - dilation * (kernel - 1) - 1;
  check(n >= 0, "deform_conv2d: the kernel of ", kernel, " with dilation ", dilation, " is larger than the image of ",
        size, " with padding ", padding);
  return n / stride + 1;
}

}  // namespace

Tensor deform_conv2d(const Tensor& x, const Tensor& offset, const Tensor& weight, const Tensor& bias,
                     const mantissa::Conv2dOptions& o, const Tensor& mask) {
  check(x.defined() && x.dim() == 4 && x.numel() > 0 && x.is_floating(), "deform_conv2d: x must be [N, C, H, W], got ",
        x);
  check(weight.defined() && weight.dim() == 4 && o.groups >= 1 && weight.size(1) * o.groups == x.size(1) &&
            weight.size(0) % o.groups == 0,
        "deform_conv2d: weight must be [O, C / groups, kh, kw] with C = ", x.size(1), " and groups = ", o.groups,
        ", which divides O, got ", weight);
  const std::int64_t batch = x.size(0), channels = x.size(1), out = weight.size(0), kh = weight.size(2),
                     kw = weight.size(3), taps = kh * kw,
                     height = result_size(x.size(2), kh, o.stride[0], o.padding[0], o.dilation[0]),
                     width = result_size(x.size(3), kw, o.stride[1], o.padding[1], o.dilation[1]);
  check(offset.defined() && offset.dim() == 4 && offset.size(0) == batch && offset.size(1) > 0 &&
            offset.size(1) % (2 * taps) == 0 && channels % (offset.size(1) / (2 * taps)) == 0 &&
            offset.size(2) == height && offset.size(3) == width,
        "deform_conv2d: offset must be [", batch, ", G * ", 2 * taps, ", ", height, ", ", width,
        "], where G divides the ", channels, " channels, got ", offset);
  const std::int64_t groups = offset.size(1) / (2 * taps);
  check(!mask.defined() || mask.sizes() == Dims{batch, groups * taps, height, width}, "deform_conv2d: mask must be [",
        batch, ", ", groups * taps, ", ", height, ", ", width, "], got ", mask);
  check(!bias.defined() || bias.sizes() == Dims{out}, "deform_conv2d: bias must be [", out, "], got ", bias);

  const amp::Autocast off(amp::disabled);
  const auto wide = [&](const Tensor& t) { return x.dtype() == f64 ? t.to(f64) : t.to(f32); };
  const Tensor image = wide(x), moved = wide(offset).reshape(batch * groups, kh, kw, 2, height, width);
  const std::int64_t rows = power_of_two(x.size(2)), columns = power_of_two(x.size(3));
  const Tensor y = regular(kh, height, o.stride[0], o.padding[0], o.dilation[0], image).reshape(kh, 1, height, 1),
               x_ = regular(kw, width, o.stride[1], o.padding[1], o.dilation[1], image).reshape(1, kw, 1, width);
  const Tensor grid = stack({normalized(select(moved, 3, 1) + x_, columns), normalized(select(moved, 3, 0) + y, rows)},
                            -1);  // [N * G, kh, kw, h, w, 2]
  const Tensor padded = pad(image, {0, columns - x.size(3), 0, rows - x.size(2)});
  Tensor read = grid_sample(padded.reshape(batch * groups, channels / groups, rows, columns),
                            grid.reshape(batch * groups, taps * height, width, 2));
  if (mask.defined()) read = read * wide(mask).reshape(batch * groups, 1, taps * height, width);
  const Tensor product =
      matmul(wide(weight).reshape(o.groups, out / o.groups, -1), read.reshape(batch, o.groups, -1, height * width));
  Tensor result = product.reshape(batch, out, height, width);
  if (bias.defined()) result = result + wide(bias).reshape(out, 1, 1);
  return result.to(x.dtype());
}

}  // namespace mantissa::nn
