// Where each pixel of a moved picture comes from, and the picture that follows from it: what rotation, affine maps,
// perspective and elastic deformation share. Used by their files; not by programs.
#pragma once

#include <cstdint>
#include <vector>

#include "data/geometry.h"

namespace mantissa::data {

// From a place in the middle of the picture, -1 to 1 from border to border, to one in pixels from the middle of the
// first one. These steps in f32 are those of torchvision, so that the nearest pixel is the same one.
inline float pixel_of(float place, std::int64_t size) {
  return (place + 1) * (static_cast<float>(size) / 2) - 0.5f;
}

struct Places {
  Places(std::int64_t h, std::int64_t w)
      : height(h), width(w), y(static_cast<std::size_t>(h * w)), x(static_cast<std::size_t>(h * w)) {
    check(h * w < INT32_MAX, "images of ", h, " x ", w, " are too large to be moved");
  }
  std::int64_t height, width;
  std::vector<float> y, x;  // of each pixel, row by row; in pixels from the middle of the first one
};

// Image `b` of `images` as `places` say, to image `b` of `out`, which has their size; what lies outside is o.fill.
void sample_image(const Tensor& images, std::int64_t b, const Places& places, const RotationOptions& o,
                  const Tensor& out);

}  // namespace mantissa::data
