// Convolution of images and volumes and its two gradients, all three bilinear in their two operands. The batch is cut
// into chunks by shape alone, so results do not depend on the number of threads. The CPU algorithms are in
// core/conv_algorithms.h, the choice among them in core/conv_choice.cpp.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/packed_weights.h"
#include "core/tensor.h"

namespace mantissa {

struct ConvShape {
  std::int64_t batch, in_channels, out_channels, groups;
  std::int64_t in[2], out[2], kernel[2];  // height, width
  std::int64_t stride[2], padding[2], dilation[2];
  // The third dimension of a volume, before the other two. An image has depth 1.
  struct Depth {
    std::int64_t in = 1, out = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
    friend bool operator==(const Depth&, const Depth&) = default;
  } depth = {};

  bool is_image() const { return depth == Depth{}; }
  MANTISSA_HD std::int64_t in_pixels() const { return depth.in * in[0] * in[1]; }
  MANTISSA_HD std::int64_t out_pixels() const { return depth.out * out[0] * out[1]; }
  MANTISSA_HD std::int64_t taps() const { return depth.kernel * kernel[0] * kernel[1]; }
  MANTISSA_HD std::int64_t in_image() const { return in_channels * in_pixels(); }
  MANTISSA_HD std::int64_t out_image() const { return out_channels * out_pixels(); }
  std::int64_t weights() const { return out_channels * in_channels / groups * taps(); }
  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(out_pixels()) * static_cast<double>(weights());
  }
  friend bool operator==(const ConvShape&, const ConvShape&) = default;
};

// forward: y = x * weight; input_gradient: dx = g * weight; weight_gradient: dweight = x * g.
enum class ConvPass { forward, input_gradient, weight_gradient };

// The layout that convolutions and their gradients write and prefer to read: channels-last where the device's kernels
// are faster so (f16 and bf16 on a GPU, for Tensor Cores; most images on the CPU). Both layouts are accepted.
Layout conv_layout(const ConvShape& shape, Dtype dtype, Device device);

// Whether the CPU may compute 3 x 3 convolutions by Winograd's algorithm F(4x4, 3x3) (Lavin & Gray, 2015): faster, with
// larger rounding errors (figures in docs/performance.md). On by default, unless $MANTISSA_WINOGRAD=off. Applies to all
// threads, from the next convolution on.
void set_winograd(bool on);
bool winograd_allowed();

// A relu next to a convolution, applied before the result is stored where a GPU's kernels can (f16 and bf16 by cuDNN),
// or else to the result: to that of the forward pass, or its derivative to an input gradient if it made that input.
struct ConvRelu {
  bool after = false;          // forward
  const View* made = nullptr;  // input gradient: the relu's result, of the sizes and dtype of the gradient
  bool any() const { return after || made; }
  void apply_to(const View& y) const;
};

namespace kernels {

// Result and operands as listed at ConvPass, images or volumes; bias [out_channels] or absent, forward only. All have
// one dtype, with two exceptions: a weight gradient may be f32 for f16 or bf16 operands (with `add` it is added to y),
// and on the CPU an input gradient may be f32. `kept` belongs to the weight: its packed form may be cached
// (core/packed_weights.h).
void conv2d(Device device, ConvPass pass, const ConvShape& shape, const View& y, const View& a, const View& b,
            const View& bias, const KeptWeight& kept = {}, bool add = false, const ConvRelu& relu = {});

}  // namespace kernels
}  // namespace mantissa
