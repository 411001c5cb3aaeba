// matmul of f16 or bf16 with a result in f32, the dtype it accumulates in; for f32 and f64 it is plain matmul.
#pragma once

#include "core/tensor.h"

namespace mantissa {
Tensor wide_matmul(const Tensor& a, const Tensor& b);
}
