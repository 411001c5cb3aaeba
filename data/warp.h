// Image warps: perspective and elastic deformation. Images [B, C, H, W], u8 or f32, contiguous; returns new tensors.
// Behaviour follows torchvision's transforms and functions of the same names.
#pragma once

#include <array>
#include <cstdint>

#include "data/geometry.h"

namespace mantissa::data {

// The perspective map that takes the four points `from` to the four points `to`. A point is {column, row} of a pixel.
// Error if three of `to` are collinear.
using Corners = std::array<std::array<double, 2>, 4>;  // upper left, upper right, lower right, lower left
Tensor perspective(const Tensor& images, const Corners& from, const Corners& to,
                   const RotationOptions& options = {.interpolation = Interpolation::bilinear});

// Applied with probability p per image: the corners move inwards, each by up to distortion_scale times half the image's
// sides. An image whose corners would become collinear is unchanged.
struct RandomPerspectiveOptions {
  float distortion_scale = 0.5f, p = 0.5f;
  Interpolation interpolation = Interpolation::bilinear;
  float fill = 0, target_fill = 0;
};
Tensor random_perspective(const Tensor& images, Draws& draws, const RandomPerspectiveOptions& options = {},
                          Motions* motions = nullptr);

// Each output pixel samples the image at its own position plus `displacement`, f32 [H, W, 2]: x and y, in units of half
// the image's sides. One displacement for all images.
Tensor elastic(const Tensor& images, const Tensor& displacement,
               const RotationOptions& options = {.interpolation = Interpolation::bilinear});

// Each image gets its own displacement: noise from [-1, 1], blurred with sigma, scaled to at most alpha / 2 pixels
// (Simard et al., 2003). With sigma > 0 each side of the image must be longer than half the blur's window, 4 sigma.
struct RandomElasticOptions {
  float alpha = 50, sigma = 5;
  Interpolation interpolation = Interpolation::bilinear;
  float fill = 0, target_fill = 0;
};
Tensor random_elastic(const Tensor& images, Draws& draws, const RandomElasticOptions& options = {},
                      Motions* motions = nullptr);

}  // namespace mantissa::data
