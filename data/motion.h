// Where a transform moves what lies in an image: boxes and points (data/box_targets.h). The functions that move pixels
// (data/transforms.h, data/geometry.h, data/crops.h, data/warp.h) append one Motion per image to the list they are
// given.
//
//   data::Motions motions;
//   const Tensor turned = data::random_rotation(images, 30, draws, {}, &motions);
//   const auto [x, y] = motions[0]({12.5, 7});     // where that place of image 0 is now
//
// Places are in pixels from the upper left corner of the image: the centre of its first pixel is (0.5, 0.5).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/pixel_step.h"
#include "core/tensor.h"

namespace mantissa::data {

using Place = std::array<double, 2>;  // x, y

struct Motion {
  std::int64_t height = 0, width = 0;  // of the moved image
  // (x, y) goes to ((a x + b y + c) / w, (d x + e y + f) / w) with w = g x + h y + 1, in this order.
  std::array<double, 8> map{1, 0, 0, 0, 1, 0, 0, 0};
  // If defined: f32 [height, width, 2]; each moved pixel shows the place that lies this many halves of the image's
  // width and height away from it.
  Tensor displacement = {};

  Place operator()(Place from) const;
};
using Motions = std::vector<Motion>;  // one per image of a batch

// x and y are multiplied by scale, then shifted.
Motion scaled_and_shifted(std::int64_t height, std::int64_t width, Place scale, Place shift);
// Of the step of an image of height x width.
Motion motion_of(const PixelStep& step, std::int64_t height, std::int64_t width);
// From the map that tells for each place of the moved image what it shows, and to it. Error if it has no inverse.
std::array<double, 8> inverse_map(const std::array<double, 8>& map);

}  // namespace mantissa::data
