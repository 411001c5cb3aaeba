// Weight gradients by core/depthwise.h, which reads channels-last images and writes one tap after the other.
#include "core/conv_algorithms.h"
#include "core/depthwise.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace conv {
namespace {

View in_last(const View& v, Dtype dtype, Tensor& keep) {
  if (is_last(v) && v.dtype == dtype) return v;
  keep = Tensor::allocate(v.sizes, dtype, cpu, Layout::channels_last);
  kernels::copy(cpu, keep.view(), v);
  return keep.view();
}

}  // namespace

void run_depthwise(const Call& c) {
  const ConvShape& s = c.shape;
  Tensor x_copy, g_copy;
  const Tensor by_taps = Tensor::allocate({s.taps(), s.in_channels}, f32);
  kernels::depthwise_weight_gradient(cpu, s, by_taps.view(), in_last(c.a, c.a.dtype, x_copy),
                                     in_last(c.b, c.a.dtype, g_copy));
  View sums = by_taps.view();
  sums.sizes = c.y.sizes;  // [channels, 1, height, width]
  sums.strides = {1, 1, s.kernel[1] * s.in_channels, s.in_channels};
  kernels::copy(cpu, c.y, sums);
}

}  // namespace conv
}  // namespace mantissa
