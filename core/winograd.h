// Winograd convolution F(4x4, 3x3) on channels-last images: a quarter of the multiplications of direct convolution. For
// 3 x 3 kernels with stride 1, dilation 1, one group. (Lavin & Gray, Fast Algorithms for Convolutional Neural Networks,
// 2015.) Arithmetic in f32; images and weights may be stored in f32, bf16 or f16.
#pragma once

#include "core/conv.h"
#include "core/kernel.h"

namespace mantissa {

// CPU only. Result and operands as listed at ConvPass. Channels of images are adjacent in memory
// (other dimensions may have any strides); weights [out, in, 3, 3] may have any strides. `bias` [out_channels] in any
// of the dtypes or absent, forward only. The two images have the same dtype. Same bits for any number of threads.
MANTISSA_KERNEL(winograd, ConvPass pass, const ConvShape& shape, const View& y, const View& a, const View& b,
                const View& bias)

// Whether the kernel above supports this convolution.
bool winograd_can(ConvPass pass, const ConvShape& shape);
// Whether it is also worth trying: tiles at the borders of small images waste what it saves.
bool winograd_fits(ConvPass pass, const ConvShape& shape);

}  // namespace mantissa
