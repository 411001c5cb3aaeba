// Resizing of image windows: shared by data/geometry.h and data/image_folder.h.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace mantissa::data {

struct Window { std::int64_t top, left, height, width; };

enum class Interpolation { nearest, bilinear };

// Resizes the window of each image of x [N, C, H, W] to height x width, bilinear with antialiasing when shrinking, or
// by PyTorch's "nearest", and returns the part `wanted` of the result: [N, C, wanted.height, wanted.width], contiguous.
// x: u8 or f32 on the CPU, of any strides; the result has its dtype, u8 rounded to nearest.
Tensor resize_window(const Tensor& x, const Window& window, std::int64_t height, std::int64_t width,
                     const Window& wanted, Interpolation interpolation = Interpolation::bilinear);
inline Tensor resize_window(const Tensor& x, const Window& window, std::int64_t height, std::int64_t width,
                            Interpolation interpolation = Interpolation::bilinear) {
  return resize_window(x, window, height, width, {0, 0, height, width}, interpolation);
}

}  // namespace mantissa::data
