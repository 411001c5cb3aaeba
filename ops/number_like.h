// A number as a tensor with the dtype and device of another: a C++ number would promote integers to floats.
#pragma once

#include "core/tensor.h"

namespace mantissa {

inline Tensor number_like(const Tensor& x, double value) {
  return scalar(value, {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace mantissa
