// Colour transforms: grayscale, and colour jitter, which changes brightness, contrast, saturation and hue of each image
// randomly, in random order, as torchvision's ColorJitter. u8 pixels are truncated to integers after each change, as
// there: the first three have the same bits (as its non-vectorised kernels; with fused multiply-add some pixels are one
// level off), hue differs by at most one level.
#pragma once

#include <array>

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

// Brightness, contrast and saturation factors are drawn from [max(0, 1 - x), 1 + x]; hue is rotated by a fraction in
// [-hue, hue] of the circle, hue <= 0.5.
struct ColorJitterOptions { float brightness = 0, contrast = 0, saturation = 0, hue = 0; };

// images [B, C, H, W], u8 or f32 in [0, 1], in place. With one channel, saturation and hue have no effect.
void color_jitter_(Tensor& images, Draws& draws, const ColorJitterOptions& options);

// The same with given factors, for one image: u8 or f32 [3, H, W] or [1, H, W], in place.
void adjust_brightness_(Tensor& image, double factor);
void adjust_contrast_(Tensor& image, double factor);
void adjust_saturation_(Tensor& image, double factor);
void adjust_hue_(Tensor& image, double turn);

// [B, 1, H, W] or [B, 3, H, W] with equal channels: 0.2989 red + 0.587 green + 0.114 blue, rounded to nearest for u8
// (torchvision truncates). images [B, 3, H, W], or [B, 1, H, W], whose values are kept. Returns a new tensor.
Tensor grayscale(const Tensor& images, std::int64_t channels = 1);
// Each image becomes gray with probability p; the number of channels is kept. In place.
void random_grayscale_(Tensor& images, Draws& draws, float p = 0.1f);
// Permutes the channels of each image randomly. In place; any number of channels.
void random_channel_permutation_(Tensor& images, Draws& draws);

// Each with probability p: a factor from these ranges for brightness, contrast (half of the time applied after hue),
// saturation, a hue rotation, a channel permutation. In place; as torchvision's RandomPhotometricDistort.
struct PhotometricDistortOptions {
  std::array<float, 2> brightness{0.875f, 1.125f}, contrast{0.5f, 1.5f}, saturation{0.5f, 1.5f}, hue{-0.05f, 0.05f};
  float p = 0.5f;
};
void random_photometric_distort_(Tensor& images, Draws& draws, const PhotometricDistortOptions& options = {});

}  // namespace mantissa::data
