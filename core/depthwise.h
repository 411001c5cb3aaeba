// Weight gradient of depthwise convolutions (MobileNet, EfficientNet, ConvNeXt) on channels-last images. Arithmetic in
// f32; images may be stored in f32, bf16 or f16.
#pragma once

#include "core/conv.h"
#include "core/kernel.h"

namespace mantissa {

// CPU only, for images with groups == in_channels == out_channels: x and g as listed at ConvPass, dense channels-last
// and of one dtype; the result [kernel's height * width, channels] in f32. Same bits for any number of threads.
MANTISSA_KERNEL(depthwise_weight_gradient, const ConvShape& shape, const View& y, const View& x, const View& g)

}  // namespace mantissa
