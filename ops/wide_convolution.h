// Gradients of convolutions with respect to the input (which is what transposed convolutions compute), with an f32
// result for f16 and bf16 operands, since f32 is what they accumulate in. CPU only.
#pragma once

#include "core/ops.h"

namespace mantissa {
Tensor wide_input_gradient(const Tensor& g, const Tensor& weight, const Dims& x_sizes, const Conv2dOptions& options);
Tensor wide_input_gradient(const Tensor& g, const Tensor& weight, const Dims& x_sizes, const Conv3dOptions& options);
}  // namespace mantissa
