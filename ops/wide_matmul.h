// matmul of halves with a result in f32, which is what their products are summed in; of f32 and f64 it is matmul.
#pragma once

#include "core/tensor.h"

namespace mantissa {
Tensor wide_matmul(const Tensor& a, const Tensor& b);
}
