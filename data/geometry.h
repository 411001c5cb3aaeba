// Geometric transforms: resizing, cropping, rotation, affine maps. Images [B, C, H, W], u8 or f32, contiguous; returns
// new tensors. Behaviour follows torchvision's transforms and functions of the same names.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "data/draws.h"
#include "data/motion.h"
#include "data/resize.h"

namespace mantissa::data {

// Bilinear with antialiasing when shrinking, as Pillow and torchvision do, or the nearest pixel, as torchvision does
// with masks.
Tensor resize(const Tensor& images, std::int64_t height, std::int64_t width,
              Interpolation interpolation = Interpolation::bilinear, Motions* motions = nullptr);
// Resizes the shorter side to `size`, keeping the aspect ratio.
Tensor resize_shorter_side(const Tensor& images, std::int64_t size,
                           Interpolation interpolation = Interpolation::bilinear, Motions* motions = nullptr);
// A random size per batch: the shorter side is resized to a number from [least, most); or the image is fitted into
// height x width, times a factor from `scale`.
Tensor random_resize(const Tensor& images, std::int64_t least, std::int64_t most, Draws& draws,
                     Interpolation interpolation = Interpolation::bilinear, Motions* motions = nullptr);
Tensor scale_jitter(const Tensor& images, std::int64_t height, std::int64_t width, Draws& draws,
                    std::array<float, 2> scale = {0.1f, 2.0f}, Interpolation interpolation = Interpolation::bilinear,
                    Motions* motions = nullptr);
// Resizes the shorter side to one of `sizes`, or less, so that the longer side is at most `longest`. torchvision's
// RandomShortestSize.
Tensor random_shorter_side(const Tensor& images, const std::vector<std::int64_t>& sizes, Draws& draws,
                           std::int64_t longest = INT64_MAX, Interpolation interpolation = Interpolation::bilinear,
                           Motions* motions = nullptr);
// The central window; smaller images are zero-padded first.
Tensor center_crop(const Tensor& images, std::int64_t height, std::int64_t width, Motions* motions = nullptr);

// A window of random position, area (as a fraction of the image) and aspect ratio (width / height), resized to size x
// size.
struct ResizedCropOptions {
  std::array<float, 2> scale{0.08f, 1.0f}, ratio{3.0f / 4, 4.0f / 3};
  Interpolation interpolation = Interpolation::bilinear;
};
Tensor random_resized_crop(const Tensor& images, std::int64_t size, Draws& draws,
                           const ResizedCropOptions& options = {}, Motions* motions = nullptr);
// The random window for one image.
Window random_window(std::int64_t height, std::int64_t width, Draws& draws, const ResizedCropOptions& options);
Motion motion_of(const Window& window, std::int64_t height, std::int64_t width);  // which becomes height x width
void check_resized_crop(const ResizedCropOptions& options);  // Error for invalid ranges

// Rotates by an angle in degrees, counter-clockwise, about the centre; the size is kept. Outside pixels are `fill`.
// target_fill, here and below: a pipeline's `fill` for targets that move with the pixels (data/pixel_targets.h).
struct RotationOptions {
  Interpolation interpolation = Interpolation::nearest;
  float fill = 0, target_fill = 0;
};
Tensor rotate(const Tensor& images, double degrees, const RotationOptions& options = {});
// Each image is rotated by its own random angle from [-degrees, degrees].
Tensor random_rotation(const Tensor& images, float degrees, Draws& draws, const RotationOptions& options = {},
                       Motions* motions = nullptr);

// Affine map as torchvision's affine: shear, clockwise rotation, scaling, then translation. With nearest interpolation
// the selected pixels are torchvision's as well.
struct Affine {
  double degrees = 0;
  double right = 0, down = 0;  // in pixels
  double scale = 1;
  double shear_x = 0, shear_y = 0;    // degrees
  double center_x = 0, center_y = 0;  // fixed point of rotation, scaling and shear, in pixels from the image centre
};
Tensor affine(const Tensor& images, const Affine& map, const RotationOptions& options = {});
// Each image gets its own random map: an angle from [-degrees, degrees], shifts of up to these fractions of width and
// height in whole pixels, a factor from `scale`, shears from these ranges.
struct RandomAffineOptions {
  float degrees = 0;
  std::array<float, 2> translate{0, 0}, scale{1, 1}, shear_x{0, 0}, shear_y{0, 0};
  Interpolation interpolation = Interpolation::nearest;
  float fill = 0, target_fill = 0;
};
Tensor random_affine(const Tensor& images, Draws& draws, const RandomAffineOptions& options,
                     Motions* motions = nullptr);

}  // namespace mantissa::data
