// Transforms that move pixels: other sizes, and rotation. Images [B, C, H, W], u8 or f32, contiguous; the results are
// new tensors. Behaviour follows torchvision's transforms and functions of the same names.
#pragma once

#include <array>
#include <cstdint>

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

// Bilinear, and smoothed first where the image shrinks (antialias), as Pillow and torchvision do it.
Tensor resize(const Tensor& images, std::int64_t height, std::int64_t width);
// The shorter side becomes `size`, the other one keeps the proportion.
Tensor resize_shorter_side(const Tensor& images, std::int64_t size);
// A window from the middle; an image that is smaller is first padded with 0.
Tensor center_crop(const Tensor& images, std::int64_t height, std::int64_t width);

// A window of a random place, area (as a part of the image) and ratio of width to height, brought to size x size.
struct ResizedCropOptions { std::array<float, 2> scale{0.08f, 1.0f}, ratio{3.0f / 4, 4.0f / 3}; };
Tensor random_resized_crop(const Tensor& images, std::int64_t size, Draws& draws,
    const ResizedCropOptions& options = {});

// By an angle in degrees, counter-clockwise, about the centre; the size stays. What comes from outside is `fill`.
enum class Interpolation { nearest, bilinear };
struct RotationOptions {
  Interpolation interpolation = Interpolation::nearest;
  float fill = 0;
};
Tensor rotate(const Tensor& images, float degrees, const RotationOptions& options = {});
// Each image by an angle of its own from [-degrees, degrees].
Tensor random_rotation(const Tensor& images, float degrees, Draws& draws, const RotationOptions& options = {});

}  // namespace mantissa::data
