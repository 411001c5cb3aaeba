// Transforms that move pixels: other sizes, rotation, affine maps. Images [B, C, H, W], u8 or f32, contiguous; the
// results are new tensors. Behaviour follows torchvision's transforms and functions of the same names.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "data/draws.h"
#include "data/resize.h"

namespace mantissa::data {

// Bilinear, and smoothed first where the image shrinks (antialias), as Pillow and torchvision do it.
Tensor resize(const Tensor& images, std::int64_t height, std::int64_t width);
// The shorter side becomes `size`, the other one keeps the proportion.
Tensor resize_shorter_side(const Tensor& images, std::int64_t size);
// Of one size for the whole batch, so that every batch sees another scale: the shorter side becomes a number from
// [least, most); or the image is brought into height x width, as large as it fits, times a number from `scale`.
Tensor random_resize(const Tensor& images, std::int64_t least, std::int64_t most, Draws& draws);
Tensor scale_jitter(const Tensor& images, std::int64_t height, std::int64_t width, Draws& draws,
                    std::array<float, 2> scale = {0.1f, 2.0f});
// The shorter side becomes one of `sizes`, or less, so that the other one is not longer than `longest`. torchvision's
// RandomShortestSize.
Tensor random_shorter_side(const Tensor& images, const std::vector<std::int64_t>& sizes, Draws& draws,
                           std::int64_t longest = INT64_MAX);
// A window from the middle; an image that is smaller is first padded with 0.
Tensor center_crop(const Tensor& images, std::int64_t height, std::int64_t width);

// A window of a random place, area (as a part of the image) and ratio of width to height, brought to size x size.
struct ResizedCropOptions { std::array<float, 2> scale{0.08f, 1.0f}, ratio{3.0f / 4, 4.0f / 3}; };
Tensor random_resized_crop(const Tensor& images, std::int64_t size, Draws& draws,
    const ResizedCropOptions& options = {});
// The window that it draws for one image.
Window random_window(std::int64_t height, std::int64_t width, Draws& draws, const ResizedCropOptions& options);
void check_resized_crop(const ResizedCropOptions& options);  // Error for ranges that are none

// By an angle in degrees, counter-clockwise, about the centre; the size stays. What comes from outside is `fill`.
enum class Interpolation { nearest, bilinear };
struct RotationOptions {
  Interpolation interpolation = Interpolation::nearest;
  float fill = 0;
};
Tensor rotate(const Tensor& images, double degrees, const RotationOptions& options = {});
// Each image by an angle of its own from [-degrees, degrees].
Tensor random_rotation(const Tensor& images, float degrees, Draws& draws, const RotationOptions& options = {});

// Moved by an affine map, as torchvision's affine: sheared, turned clockwise, scaled, then shifted. The nearest pixels
// are torchvision's as well.
struct Affine {
  double degrees = 0;
  double right = 0, down = 0;  // in pixels
  double scale = 1;
  double shear_x = 0, shear_y = 0;    // degrees
  double center_x = 0, center_y = 0;  // what turning, scaling and shearing leave in place, in pixels from the middle
};
Tensor affine(const Tensor& images, const Affine& map, const RotationOptions& options = {});
// Each image by a map of its own: an angle from [-degrees, degrees], shifts of up to these parts of width and height in
// whole pixels, a factor from `scale`, shears from these ranges.
struct RandomAffineOptions {
  float degrees = 0;
  std::array<float, 2> translate{0, 0}, scale{1, 1}, shear_x{0, 0}, shear_y{0, 0};
  Interpolation interpolation = Interpolation::nearest;
  float fill = 0;
};
Tensor random_affine(const Tensor& images, Draws& draws, const RandomAffineOptions& options);

}  // namespace mantissa::data
