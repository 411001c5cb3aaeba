// Blurring and sharpening of images. Gaussian blur, as torchvision's: normalised weights exp(-(distance / sigma)^2 /
// 2), with reflected borders. images [B, C, H, W], u8 or f32, contiguous, each side longer than half the window;
// returns new tensors. u8 results are rounded to nearest.
#pragma once

#include <array>

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

Tensor gaussian_blur(const Tensor& images, int kernel_size, float sigma);  // kernel_size odd, sigma > 0, in pixels
// Each image gets its own sigma, drawn from the range.
Tensor random_gaussian_blur(const Tensor& images, Draws& draws, int kernel_size,
                            std::array<float, 2> sigma = {0.1f, 2.0f});

// factor * image + (1 - factor) * the 3x3 mean in which the pixel itself has weight five: 0 blurs, 1 is the identity, 2
// sharpens. Border pixels are unchanged. images [..., H, W], u8 or f32 in [0, 1], contiguous, in place. As
// torchvision's function; u8 results have the same bits (of its non-vectorised kernels, see data/color.h).
void adjust_sharpness_(Tensor& images, double factor);
// Applied to each image of [B, C, H, W] with probability p.
void random_adjust_sharpness_(Tensor& images, Draws& draws, double factor, float p = 0.5f);

}  // namespace mantissa::data
