// Shared by the CPU and CUDA versions of constant_pad.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// The interior of y: the part of the given sizes that begins at `before`.
inline View inside_border(const View& y, const Dims& sizes, const Dims& before) {
  View part = y;
  std::int64_t offset = 0;
  for (int d = 0; d < sizes.rank(); ++d) offset += before[d] * y.strides[d];
  part.sizes = sizes;
  part.data = y.as<char>() + offset * static_cast<std::int64_t>(size_of(y.dtype));
  return part;
}

}  // namespace mantissa
