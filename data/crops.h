// Padding and cropping of images. Images [B, C, H, W], u8 or f32, contiguous; returns new tensors. Behaviour follows
// torchvision's transforms and functions of the same names. See also: random_crop to the original size
// (data/transforms.h), center_crop, random_resized_crop (data/geometry.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "data/draws.h"
#include "data/motion.h"

namespace mantissa::data {

// Padding values: a constant, the edge pixel repeated, or the image mirrored, without or with repeating its edge pixel.
// A mirrored border must not be wider than the image (without the repeated pixel: narrower).
enum class Border { constant, edge, reflect, symmetric };

struct PadOptions {
  std::int64_t left = 0, top = 0, right = 0, bottom = 0;
  float fill = 0;  // for Border::constant
  Border border = Border::constant;
  float target_fill = 0;  // of targets that move with the pixels: data/pixel_targets.h
};
// motions, here and below: as those of data/transforms.h.
Tensor pad(const Tensor& images, const PadOptions& options, Motions* motions = nullptr);

// A window of this size at a random position of each padded image. Error if the window is larger than that.
struct RandomCropOptions {
  std::int64_t height = 0, width = 0;
  std::int64_t padding = 0;  // on every side
  float fill = 0;
  Border border = Border::constant;
  float target_fill = 0;
};
Tensor random_crop(const Tensor& images, const RandomCropOptions& options, Draws& draws, Motions* motions = nullptr);

// For test-time augmentation: crops of the upper left, upper right, lower left and lower right corner and of the
// centre. [5 B, C, height, width]: those of the first image, then those of the second, ...
Tensor five_crop(const Tensor& images, std::int64_t height, std::int64_t width);
// The same plus the five crops of each image mirrored horizontally, or vertically. [10 B, C, height, width]. To average
// a model's outputs: model(ten_crop(images, h, w)).reshape({images.size(0), 10, -1}).mean(1).
Tensor ten_crop(const Tensor& images, std::int64_t height, std::int64_t width, bool vertical_flip = false);

}  // namespace mantissa::data
