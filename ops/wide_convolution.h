// Gradients of convolutions with respect to images, which are what transposed convolutions compute, with a result in
// f32 where the operands are halves: that is what they are summed in. On the CPU.
#pragma once

#include "core/ops.h"

namespace mantissa {
Tensor wide_input_gradient(const Tensor& g, const Tensor& weight, const Dims& x_sizes, const Conv2dOptions& options);
Tensor wide_input_gradient(const Tensor& g, const Tensor& weight, const Dims& x_sizes, const Conv3dOptions& options);
}  // namespace mantissa
