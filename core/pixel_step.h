// One random augmentation step of one image as data: drawn by a transform of data/, applied by the CPU to an image in
// memory, or by the device while it gathers a batch (cuda/images.cu). Both give the same pixels.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace mantissa {

struct PixelStep {
  enum Kind : std::int64_t {
    nothing,
    mirror_x,  // left to right
    mirror_y,  // top to bottom
    shift,     // out(y, x) = in(y + a, x + b), 0 where that is outside
    fill,      // out(y, x) = value for a <= y < b, c <= x < d
  };
  std::int64_t kind = nothing, a = 0, b = 0, c = 0, d = 0, value = 0;

  // Maps pixel (y, x) of the output to its source position before this step. False: the pixel is `value`.
  MANTISSA_HD bool trace(std::int64_t height, std::int64_t width, std::int64_t* y, std::int64_t* x) const {
    switch (kind) {
      case mirror_x: *x = width - 1 - *x; return true;
      case mirror_y: *y = height - 1 - *y; return true;
      case shift: *y += a; *x += b; return *y >= 0 && *y < height && *x >= 0 && *x < width;
      case fill: return *y < a || *y >= b || *x < c || *x >= d;
      default: return true;
    }
  }
};

}  // namespace mantissa
