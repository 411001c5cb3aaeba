// Convolutions of channels-last images as products, in one group; cuda/conv.cu takes everything else.
#pragma once

#include "core/conv.h"

namespace mantissa::cuda_backend {

// Operands as kernels::conv2d has them, with results dense. Images written and gradients read are
// channels-last; x of forward and weight_gradient may have any strides, best these. Weights [out, in, height, width]
// lie as [out, height, width, in]; the weight gradient is written to any strides. bias: forward only, may be absent.
void conv_channels(ConvPass pass, const ConvShape& shape, const View& y, const View& a, const View& b, const View& bias,
                   bool add);

}  // namespace mantissa::cuda_backend
