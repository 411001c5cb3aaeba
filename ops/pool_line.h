// Lines and images as the pooling kernels see them: a line is an image of height 1, an image a volume of depth 1.
#pragma once

#include "core/ops.h"
#include "ops/no_batch.h"

namespace mantissa {

inline void check_line(const char* name, const Tensor& x) {
  check(x.dim() == 3, name, ": x must be [N, C, L] or [C, L], got ", x);
}
inline void check_plane(const char* name, const Tensor& x) {
  check(x.dim() == 4, name, ": x must be [N, C, H, W] or [C, H, W], got ", x);
}
inline Pool2dOptions as_image(const Pool1dOptions& o) {
  return {.stride = {1, o.stride},
          .padding = {0, o.padding},
          .ceil_mode = o.ceil_mode,
          .count_include_pad = o.count_include_pad,
          .dilation = {1, o.dilation}};
}
inline Pool3dOptions as_volume(const Pool2dOptions& o) {
  return {.stride = {1, o.stride[0], o.stride[1]},
          .padding = {0, o.padding[0], o.padding[1]},
          .ceil_mode = o.ceil_mode,
          .count_include_pad = o.count_include_pad,
          .dilation = {1, o.dilation[0], o.dilation[1]},
          .divisor_override = o.divisor_override};
}

}  // namespace mantissa
