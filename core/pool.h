// The geometry of pooling: which input pixels each output pixel covers. PoolShape is for images and the fast kernels;
// VolumePoolShape for volumes, and for images (as depth 1) with dilation or divisor_override.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace mantissa {

struct PoolShape {
  std::int64_t in[2], out[2];                      // height, width
  std::int64_t kernel[2], stride[2], padding[2];   // unused when adaptive
  bool adaptive = false;                           // windows that divide the input evenly
  bool count_padding = true;                       // averages divide by the padded window

  // Along dimension d, output o covers inputs [begin, end); an average counts them as `extent` pixels.
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

struct VolumePoolShape {
  std::int64_t in[3], out[3];                                  // depth, height, width
  std::int64_t kernel[3], stride[3], padding[3], dilation[3];  // unused when adaptive
  bool adaptive = false;
  bool count_padding = true;
  std::int64_t divisor = 0;  // for averages; 0: the window's extent

  // Inputs begin, begin + step, ... below end; an average counts them as `extent`.
  struct Window { std::int64_t begin, end, step, extent; };
  MANTISSA_HD Window window(int d, std::int64_t o) const {
    if (adaptive) {
      const std::int64_t begin = o * in[d] / out[d], end = ((o + 1) * in[d] + out[d] - 1) / out[d];
      return {begin, end, 1, end - begin};
    }
    const std::int64_t first = o * stride[d] - padding[d], stop = first + (kernel[d] - 1) * dilation[d] + 1;
    const std::int64_t begin = first < 0 ? first + (-first + dilation[d] - 1) / dilation[d] * dilation[d] : first;
    const std::int64_t end = stop > in[d] ? in[d] : stop;
    const std::int64_t padded = (stop > in[d] + padding[d] ? in[d] + padding[d] : stop) - first;
    return {begin, end, dilation[d], count_padding ? padded : end - begin};
  }
  // Outputs [begin, end) along dimension d: all whose windows cover input i. With dilation there may be others between.
  struct Outputs { std::int64_t begin, end; };
  MANTISSA_HD Outputs covering(int d, std::int64_t i) const {
    if (adaptive) return {i * out[d] / in[d], ((i + 1) * out[d] + in[d] - 1) / in[d]};
    const std::int64_t place = i + padding[d], before = place - (kernel[d] - 1) * dilation[d];
    const std::int64_t end = place / stride[d] + 1;
    return {before > 0 ? (before + stride[d] - 1) / stride[d] : 0, end < out[d] ? end : out[d]};
  }
  MANTISSA_HD std::int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  MANTISSA_HD std::int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
};

}  // namespace mantissa
