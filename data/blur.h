// Blurred and sharper pictures. Gaussian blur, as torchvision's: a window of weights exp(-(distance / sigma)^2 / 2)
// that sum to 1; the image is mirrored at its borders. images [B, C, H, W], u8 or f32, contiguous, longer on each side
// than half the window; new tensors. u8 results are rounded to the nearest.
#pragma once

#include <array>

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

Tensor gaussian_blur(const Tensor& images, int kernel_size, float sigma);  // kernel_size odd, sigma > 0, in pixels
// Each image with a sigma of its own from the range.
Tensor random_gaussian_blur(const Tensor& images, Draws& draws, int kernel_size,
                            std::array<float, 2> sigma = {0.1f, 2.0f});

// factor * image + (1 - factor) * its mean over 3 x 3 pixels, in which the pixel itself counts five times: 0 blurs, 1
// changes nothing, 2 sharpens. Pixels at the border stay. images [..., H, W], u8 or f32 in [0, 1], contiguous, in
// place. torchvision's function; u8 results have its bits (of its plainest kernels, see data/color.h).
void adjust_sharpness_(Tensor& images, double factor);
// Each image of [B, C, H, W] with probability p.
void random_adjust_sharpness_(Tensor& images, Draws& draws, double factor, float p = 0.5f);

}  // namespace mantissa::data
