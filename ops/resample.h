// Interpolation and padding as linear maps along the last dimensions: one operator, whose gradient is the same operator
// with the maps transposed. It preserves the layout of images and volumes.
#pragma once

#include <vector>

#include "core/resample.h"

namespace mantissa {

// x [N, C, ...] with a map for each of one to three dimensions, any of which may be empty (core/resample.h).
Tensor resample(const Tensor& x, std::vector<Taps> maps);

}  // namespace mantissa
