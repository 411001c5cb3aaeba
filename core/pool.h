// The geometry of 2-d pooling: which input pixels each output pixel sees.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace mantissa {

struct PoolShape {
  std::int64_t in[2], out[2];                      // height, width
  std::int64_t kernel[2], stride[2], padding[2];   // unused when adaptive
  bool adaptive = false;                           // windows that divide the input evenly
  bool count_padding = true;                       // averages divide by the padded window

  // Along dimension d, output o sees inputs [begin, end); an average counts it as `extent` pixels.
  struct Window { std::int64_t begin, end, extent; };
  MANTISSA_HD Window window(int d, std::int64_t o) const {
    if (adaptive) {
      const std::int64_t begin = o * in[d] / out[d], end = ((o + 1) * in[d] + out[d] - 1) / out[d];
      return {begin, end, end - begin};
    }
    const std::int64_t begin = o * stride[d] - padding[d], stop = begin + kernel[d];
    const std::int64_t first = begin < 0 ? 0 : begin, last = stop > in[d] ? in[d] : stop;
    const std::int64_t padded = (stop > in[d] + padding[d] ? in[d] + padding[d] : stop) - begin;
    return {first, last, count_padding ? padded : last - first};
  }
};

}  // namespace mantissa
