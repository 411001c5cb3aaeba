// Colours: grayscale, and colour jitter: brightness, contrast, saturation and hue of each image change by chance, in a
// random order, as torchvision's ColorJitter. Computed in f32 with one rounding at the end.
#pragma once

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

// A factor from [max(0, 1 - x), 1 + x] for the first three; hue turns by a part in [-hue, hue] of the circle,
// hue <= 0.5.
struct ColorJitterOptions { float brightness = 0, contrast = 0, saturation = 0, hue = 0; };

// images [B, C, H, W], u8 or f32 in [0, 1], in place. With one channel, saturation and hue change nothing.
void color_jitter_(Tensor& images, Draws& draws, const ColorJitterOptions& options);

// The same with given factors, of one image: u8 or f32 [3, H, W] or [1, H, W], in place.
void adjust_brightness_(Tensor& image, float factor);
void adjust_contrast_(Tensor& image, float factor);
void adjust_saturation_(Tensor& image, float factor);
void adjust_hue_(Tensor& image, float turn);

// [B, 1, H, W] or [B, 3, H, W] with equal channels: 0.2989 red + 0.587 green + 0.114 blue, to the nearest for u8
// (torchvision cuts off). images [B, 3, H, W], or [B, 1, H, W], which stay as they are. A new tensor.
Tensor grayscale(const Tensor& images, std::int64_t channels = 1);
// Images without colour, with probability p each; the number of channels stays. In place.
void random_grayscale_(Tensor& images, Draws& draws, float p = 0.1f);

}  // namespace mantissa::data
