// What the versions of constant_pad share.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// What lies inside the border: the part of y of these sizes that begins at `before`.
inline View inside_border(const View& y, const Dims& sizes, const Dims& before) {
  View part = y;
  std::int64_t offset = 0;
  for (int d = 0; d < sizes.rank(); ++d) offset += before[d] * y.strides[d];
  part.sizes = sizes;
  part.data = y.as<char>() + offset * static_cast<std::int64_t>(size_of(y.dtype));
  return part;
}

}  // namespace mantissa
