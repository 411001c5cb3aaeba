// Winograd's convolution F(4x4, 3x3) on channels-last images: a quarter of the multiplications of the definition.
// For kernels of 3 x 3, stride 1, dilation 1, one group. (Lavin & Gray, Fast Algorithms for Convolutional Neural
// Networks, 2015.) Arithmetic in f32; images and weights may be stored in f32, bf16 or f16.
#pragma once

#include "core/conv.h"
#include "core/kernel.h"

namespace mantissa {

// CPU only. Result and operands as ConvPass lists them. Images have channels in adjacent elements (any strides of the
// other dimensions); weights [out, in, 3, 3] have any strides. `bias` [out_channels] in any of the dtypes or absent,
// forward only. The two images share one dtype. Same bits for any number of threads.
MANTISSA_KERNEL(winograd, ConvPass pass, const ConvShape& shape, const View& y, const View& a, const View& b,
                const View& bias)

// Whether the kernel above can compute this.
bool winograd_can(ConvPass pass, const ConvShape& shape);
// Whether it can and is worth trying: it does not waste what it saves on the borders of small images.
bool winograd_fits(ConvPass pass, const ConvShape& shape);

}  // namespace mantissa
