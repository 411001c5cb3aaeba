// Operators along a dimension treat a 0-d tensor as a vector of one element, and that is what their kernels get.
#pragma once

#include "core/tensor.h"

namespace mantissa {

inline View at_least_1d(View v) {
  if (v.dim() == 0) v.sizes.push_back(1), v.strides.push_back(1);
  return v;
}

}  // namespace mantissa
