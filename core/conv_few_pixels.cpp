// Convolution with few output pixels in all: the input taps of each pixel are gathered into a row, in the weight's
// order, and rows are multiplied by the weight in place (core/gemm_few_rows.h). Nothing is packed, and the weight, most
// of the memory traffic of such a layer, is read once.
#include <algorithm>

#include "core/conv_algorithms.h"
#include "core/gemm_few_rows.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace conv {
namespace {

// The taps [channels, kernel] of pixel `p` of all images; zeros outside the image.
void gather(const ConvShape& s, const View& x, std::int64_t p, float* row) {
  const std::int64_t taps = s.taps(), pixel = p % s.out_pixels(), oy = pixel / s.out[1], ox = pixel % s.out[1];
  const float* image = x.as<const float>() + p / s.out_pixels() * x.strides[0];
  for (std::int64_t t = 0; t < taps; ++t) {
    const std::int64_t iy = oy * s.stride[0] - s.padding[0] + t / s.kernel[1] * s.dilation[0];
    const std::int64_t ix = ox * s.stride[1] - s.padding[1] + t % s.kernel[1] * s.dilation[1];
    const bool inside = iy >= 0 && iy < s.in[0] && ix >= 0 && ix < s.in[1];
    const float* from = image + (inside ? iy * x.strides[2] + ix * x.strides[3] : 0);
    const std::int64_t step = x.strides[1];
    if (inside) {
      for (std::int64_t c = 0; c < s.in_channels; ++c) row[c * taps + t] = from[c * step];
    } else {
      for (std::int64_t c = 0; c < s.in_channels; ++c) row[c * taps + t] = 0.0f;
    }
  }
}

}  // namespace

void run_few_pixels(const Call& c) {
  const ConvShape& s = c.shape;
  const std::int64_t k = s.weights() / s.out_channels, pixels = s.batch * s.out_pixels();
  Tensor a_copy, b_copy, bias_copy, y_copy;
  View a = c.a;
  if (a.dtype != f32) {
    a_copy = Tensor::allocate(a.sizes, f32, cpu, Layout::channels_last);
    kernels::copy(cpu, a_copy.view(), a);
    a = a_copy.view();
  }
  View y = c.y;
  if (!is_last(y)) {
    y_copy = Tensor::allocate(y.sizes, y.dtype, cpu, Layout::channels_last);
    y = y_copy.view();
  }
  const View b = contiguous(c.b, c.b.dtype, b_copy), bias = contiguous(c.bias, y.dtype, bias_copy);
  const Tensor rows = Tensor::allocate({pixels, k}, f32);
  parallel_for(pixels, std::max<std::int64_t>(1, grain_size / 4 / k), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) gather(s, a, p, rows.data<float>() + p * k);
  });
  multiply_few_rows({y.dtype, pixels, s.out_channels, k, rows.data<float>(), k, b.data, k, bias.data, y.data,
                     s.out_channels});
  if (y_copy.defined()) kernels::copy(cpu, c.y, y);
}

}  // namespace conv
}  // namespace mantissa
