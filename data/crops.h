// Borders around pictures, and windows cut from them. Images [B, C, H, W], u8 or f32, contiguous; the results are new
// tensors. Behaviour follows torchvision's transforms and functions of the same names.
// Elsewhere: random_crop back to the same size (data/transforms.h), center_crop, random_resized_crop (data/geometry.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

// What a border shows: one value, the outermost pixel again, or the picture mirrored, without or with repeating its
// outermost pixel. A mirrored border is at most as wide as the picture (less than that without the repeated pixel).
enum class Border { constant, edge, reflect, symmetric };

struct PadOptions {
  std::int64_t left = 0, top = 0, right = 0, bottom = 0;
  float fill = 0;  // of Border::constant
  Border border = Border::constant;
};
Tensor pad(const Tensor& images, const PadOptions& options);

// A window of this size at a random place of each padded image. Error where the window is larger than that.
struct RandomCropOptions {
  std::int64_t height = 0, width = 0;
  std::int64_t padding = 0;  // on every side
  float fill = 0;
  Border border = Border::constant;
};
Tensor random_crop(const Tensor& images, const RandomCropOptions& options, Draws& draws);

// For tests: windows from the upper left, upper right, lower left and lower right corner and from the middle. [5 B, C,
// height, width]: those of the first image, then those of the second, ...
Tensor five_crop(const Tensor& images, std::int64_t height, std::int64_t width);
// The same, and the five of each image mirrored left to right, or top to bottom. [10 B, C, height, width]. The mean of
// a model's outputs: model(ten_crop(images, h, w)).reshape({images.size(0), 10, -1}).mean(1).
Tensor ten_crop(const Tensor& images, std::int64_t height, std::int64_t width, bool vertical_flip = false);

}  // namespace mantissa::data
