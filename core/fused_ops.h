// Operators that do in one pass over memory what several of core/ops.h do, with the same results and gradients.
// Modules that use them: nn::LinearAct, nn::TransformerEncoderLayer (and batch_norm_relu of core/ops.h: BatchNormAct2d).
#pragma once

#include "core/activation.h"
#include "core/tensor.h"

namespace mantissa {

// activation(linear(x, weight, bias)): x [*, in], weight [out, in], bias [out] or absent, result [*, out]. What the
// activation is applied to is rounded to the dtype first, so the bits are those of the two operators. (On a GPU: of the
// two operators where the tuner takes the same product for both, cuda/gemm.cpp.) Recorded as the two: relu keeps its
// result for the gradient, gelu what it was applied to, which the product writes only while a gradient is recorded.
// In a region with policies of its own, and where somebody observes operators, the two run one after the other.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation);

}  // namespace mantissa
