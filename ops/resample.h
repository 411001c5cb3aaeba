// Interpolation and padding as linear maps along the last two dimensions: one CPU operator, whose gradient is the same
// operator with the maps transposed. It preserves the layout of images.
#pragma once

#include "core/resample.h"

namespace mantissa {

// x [N, C, H, W] with one map for H and one for W, either of which may be empty (core/resample.h).
Tensor resample(const Tensor& x, Taps rows, Taps columns);

}  // namespace mantissa
