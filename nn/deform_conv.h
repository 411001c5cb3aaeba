// Deformable convolution (Dai et al., 2017; with a mask: Zhu et al., 2019), as in torchvision.ops: each kernel element
// samples x, by bilinear interpolation, at its regular position plus an offset computed by a network.
//
//   nn::Conv2d offsets{64, 2 * 3 * 3, 3, {.padding = 1}};
//   nn::DeformConv2d conv{64, 128, 3, {.padding = 1}};
//   Tensor y = conv(x, offsets(x));
//
// Outside of x is zero. Built from operators (grid_sample and a matrix product), so twice differentiable and available
// on every device. f16 and bf16 are computed in f32 and rounded at the end, also under autocast.
#pragma once

#include "core/ops.h"
#include "nn/conv.h"
#include "nn/copy_fields.h"
#include "nn/fields.h"

namespace mantissa::nn {

// x [N, C, H, W], weight [O, C/groups, kh, kw] -> [N, O, h, w], output sizes as for conv2d. G is the number of offset
// groups (of channels that share their offsets):
//   offset [N, G * kh * kw * 2, h, w]: y then x, in pixels, per group and kernel element;
//   mask [N, G * kh * kw, h, w], or undefined: a factor per group and kernel element.
Tensor deform_conv2d(const Tensor& x, const Tensor& offset, const Tensor& weight, const Tensor& bias = {},
                     const mantissa::Conv2dOptions& = {}, const Tensor& mask = {});

struct DeformConv2dOptions {
  PerDim<2> stride = 1, padding = 0, dilation = 1;
  int groups = 1;
  bool bias = true;
};

class DeformConv2d {
 public:
  DeformConv2d(std::int64_t in, std::int64_t out, PerDim<2> kernel, const DeformConv2dOptions& o = {})
      : options{o.stride, o.padding, o.dilation, o.groups} {
    detail::check_channels("DeformConv2d", in, out, o.groups);
    weight = Param(empty(detail::weight_sizes("DeformConv2d", out, in / o.groups, kernel)));
    if (o.bias) bias = Param(empty({out}));
    init::default_weight_and_bias_(weight, bias);
  }
  Tensor operator()(const Tensor& x, const Tensor& offset, const Tensor& mask = {}) const {
    return deform_conv2d(x, offset, weight, bias, options, mask);
  }

  Param weight, bias;
  mantissa::Conv2dOptions options;
  MANTISSA_FIELDS(weight, bias)
  DeformConv2d clone() const {
    DeformConv2d c;
    c.options = options;
    copy_fields(*this, c);
    return c;
  }

 private:
  DeformConv2d() = default;
};

}  // namespace mantissa::nn
