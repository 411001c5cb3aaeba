// Convolutions of channels-last images as matrix products, for groups = 1; everything else is in cuda/conv.cu.
#pragma once

#include "core/conv.h"

namespace mantissa::cuda_backend {

// Operands as in kernels::conv2d, with contiguous results. Images that are written and gradients that are read are
// channels-last; x of forward and weight_gradient may have any strides, ideally the same. Weights [out, in, height,
// width] are in [out, height, width, in] order; the weight gradient may have any strides. bias: forward only, optional.
void conv_channels(ConvPass pass, const ConvShape& shape, const View& y, const View& a, const View& b, const View& bias,
                   bool add);

}  // namespace mantissa::cuda_backend
