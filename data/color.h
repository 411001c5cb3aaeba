// Colours: grayscale, and colour jitter: brightness, contrast, saturation and hue of each image change by chance, in a
// random order, as torchvision's ColorJitter. Pixels of u8 are cut off to whole levels after each change, as there: the
// first three give its bits (those of its plainest kernels; fused multiply-add cuts off some pixels one level away),
// hue is at most a level away.
#pragma once

#include <array>

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

// A factor from [max(0, 1 - x), 1 + x] for the first three; hue turns by a part in [-hue, hue] of the circle,
// hue <= 0.5.
struct ColorJitterOptions { float brightness = 0, contrast = 0, saturation = 0, hue = 0; };

// images [B, C, H, W], u8 or f32 in [0, 1], in place. With one channel, saturation and hue change nothing.
void color_jitter_(Tensor& images, Draws& draws, const ColorJitterOptions& options);

// The same with given factors, of one image: u8 or f32 [3, H, W] or [1, H, W], in place.
void adjust_brightness_(Tensor& image, double factor);
void adjust_contrast_(Tensor& image, double factor);
void adjust_saturation_(Tensor& image, double factor);
void adjust_hue_(Tensor& image, double turn);

// [B, 1, H, W] or [B, 3, H, W] with equal channels: 0.2989 red + 0.587 green + 0.114 blue, to the nearest for u8
// (torchvision cuts off). images [B, 3, H, W], or [B, 1, H, W], which stay as they are. A new tensor.
Tensor grayscale(const Tensor& images, std::int64_t channels = 1);
// Images without colour, with probability p each; the number of channels stays. In place.
void random_grayscale_(Tensor& images, Draws& draws, float p = 0.1f);
// The channels of each image in a random order. In place; any number of channels.
void random_channel_permutation_(Tensor& images, Draws& draws);

// Each with probability p: a factor from these ranges for brightness, contrast (half of the time it comes after hue),
// saturation, a turn of the hue, a permutation of the channels. In place; as torchvision's RandomPhotometricDistort.
struct PhotometricDistortOptions {
  std::array<float, 2> brightness{0.875f, 1.125f}, contrast{0.5f, 1.5f}, saturation{0.5f, 1.5f}, hue{-0.05f, 0.05f};
  float p = 0.5f;
};
void random_photometric_distort_(Tensor& images, Draws& draws, const PhotometricDistortOptions& options = {});

}  // namespace mantissa::data
