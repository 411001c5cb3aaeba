// A number with the dtype of a tensor, on its device: a C++ number would turn integers into floats.
#pragma once

#include "core/tensor.h"

namespace mantissa {

inline Tensor number_like(const Tensor& x, double value) {
  return scalar(value, {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace mantissa
