// Sampling positions of transformed images, and the resulting image: shared by rotation, affine maps, perspective and
// elastic deformation. Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "data/geometry.h"

namespace mantissa::data {

// From a normalised coordinate, -1 to 1 between the borders, to a pixel coordinate of the input. The same f32
// operations as in torchvision, so that the nearest pixel is the same one.
inline float pixel_of(float place, std::int64_t size) {
  return (place + 1) * (static_cast<float>(size) / 2) - 0.5f;
}

struct Places {
  Places(std::int64_t h, std::int64_t w)
      : height(h), width(w), y(static_cast<std::size_t>(h * w)), x(static_cast<std::size_t>(h * w)) {
    check(h * w < INT32_MAX, "images of ", h, " x ", w, " are too large to be moved");
  }
  std::int64_t height, width;
  std::vector<float> y, x;  // input position of each output pixel, row by row
};

// Samples image `b` of `images` at `places` into image `b` of `out`, of that size; outside pixels are o.fill.
void sample_image(const Tensor& images, std::int64_t b, const Places& places, const RotationOptions& o,
                  const Tensor& out);

}  // namespace mantissa::data
