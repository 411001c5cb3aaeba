// Transforms that bend pictures: a change of perspective, and elastic deformation. Images [B, C, H, W], u8 or f32,
// contiguous; the results are new tensors. Behaviour follows torchvision's transforms and functions of the same names.
#pragma once

#include <array>
#include <cstdint>

#include "data/geometry.h"

namespace mantissa::data {

// What lies at the four points `from` comes to lie at the four points `to`, and straight lines stay straight. A point
// is column and row of a pixel. Error when three of `to` lie on a line.
using Corners = std::array<std::array<double, 2>, 4>;  // upper left, upper right, lower right, lower left
Tensor perspective(const Tensor& images, const Corners& from, const Corners& to,
                   const RotationOptions& options = {.interpolation = Interpolation::bilinear});

// With probability p each: the corners of the image move inwards, each by up to this part of half its sides. An image
// whose corners would come to lie on a line stays as it is.
struct RandomPerspectiveOptions {
  float distortion_scale = 0.5f, p = 0.5f;
  Interpolation interpolation = Interpolation::bilinear;
  float fill = 0;
};
Tensor random_perspective(const Tensor& images, Draws& draws, const RandomPerspectiveOptions& options = {});

// Each pixel comes from a place further by `displacement`, f32 [H, W, 2], to the right and down, in halves of the
// image's sides. One displacement for all images.
Tensor elastic(const Tensor& images, const Tensor& displacement,
               const RotationOptions& options = {.interpolation = Interpolation::bilinear});

// Each image by a displacement of its own: noise from [-1, 1], blurred with sigma, then of up to alpha / 2 pixels
// (Simard et al., 2003). With sigma > 0 the image must be longer on each side than half the blur's window, 4 sigma.
struct RandomElasticOptions {
  float alpha = 50, sigma = 5;
  Interpolation interpolation = Interpolation::bilinear;
  float fill = 0;
};
Tensor random_elastic(const Tensor& images, Draws& draws, const RandomElasticOptions& options = {});

}  // namespace mantissa::data
