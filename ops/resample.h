// Interpolation and borders as linear maps along the last two dimensions: one operator of the CPU, whose gradient is
// the operator with the maps transposed. It keeps the layout of images.
#pragma once

#include "core/resample.h"

namespace mantissa {

// x [N, C, H, W] with a map for H and one for W, each of which may be empty (core/resample.h).
Tensor resample(const Tensor& x, Taps rows, Taps columns);

}  // namespace mantissa
