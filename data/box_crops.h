// Steps for training detectors (Liu et al., "SSD: Single shot multibox detector", 2016): smaller objects by zooming
// out, larger ones by windows chosen for what lies in them. Images [B, C, H, W], u8 or f32, contiguous. Behaviour
// follows torchvision's RandomZoomOut and RandomIoUCrop, but that images keep a common size.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/box_targets.h"
#include "data/draws.h"
#include "data/geometry.h"

namespace mantissa::data {

// With probability p, puts the image at a random place on a canvas of `fill` whose sides are longer by a factor from
// `range`, and resizes that to the image's size.
struct ZoomOutOptions {
  std::array<float, 2> range{1, 4};
  float p = 0.5f;
  Interpolation interpolation = Interpolation::bilinear;
  float fill = 0, target_fill = 0;
};
Tensor random_zoom_out(const Tensor& images, Draws& draws, const ZoomOutOptions& options = {},
                       Motions* motions = nullptr);

// A window with sides between these fractions of the image's and this width / height, of which the IoU with some object
// is at least a number drawn from `overlaps` (1 and more: the whole image), and in which the centre of some object
// lies. If `attempts` windows in a row are none, another number is drawn.
struct IouCropOptions {
  std::array<float, 2> scale{0.3f, 1}, ratio{0.5f, 2};
  std::vector<float> overlaps{0, 0.1f, 0.3f, 0.5f, 0.7f, 0.9f, 1};
  int attempts = 40;
};
// boxes: `count` rows of `columns` numbers, as in data/box_targets.h. Rows with their centre outside the window become
// 0, 0, 0, 0, -1. The whole image if there are no boxes.
Window window_with_boxes(std::int64_t height, std::int64_t width, float* boxes, std::int64_t count,
                         std::int64_t columns, Draws& draws, const IouCropOptions& options = {});
void check_iou_crop(const IouCropOptions& options);  // Error for invalid ranges
// Each image is replaced by such a window, resized to height x width; its boxes, the label of the batch, move along.
void random_iou_crop(Batch& batch, std::int64_t height, std::int64_t width, Draws& draws,
                     const IouCropOptions& options = {});

}  // namespace mantissa::data
