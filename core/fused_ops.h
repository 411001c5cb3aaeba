// Operators that do in one pass over memory what several of core/ops.h do, with the same results and gradients.
// Modules that use them: nn::LinearAct, nn::LayerNorm, nn::RMSNorm, nn::TransformerEncoderLayer (and batch_norm_relu of
// core/ops.h: BatchNormAct2d).
#pragma once

#include <optional>

#include "core/activation.h"
#include "core/tensor.h"

namespace mantissa {

// activation(linear(x, weight, bias)): x [*, in], weight [out, in], bias [out] or absent, result [*, out]. What the
// activation is applied to is rounded to the dtype first, so the bits are those of the two operators. (On a GPU: of the
// two operators where the tuner takes the same product for both, cuda/gemm.cpp.) Recorded as the two: relu keeps its
// result for the gradient, gelu what it was applied to, which the product writes only while a gradient is recorded.
// In a region with policies of its own, and where somebody observes operators, the two run one after the other.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation);

// A residual connection and the normalisation after it: sum = x + delta and y = layer_norm(sum) or rms_norm(sum), for
//   auto [sum, y] = add_layer_norm(x, delta, {width}, weight, bias);
// x and delta have the same sizes and floating dtypes, maybe different ones; sum and y are of the dtype they promote
// to, and contiguous. The other arguments are those of layer_norm and rms_norm. The sum is rounded to its dtype before it
// is normalised, so the bits are those of the two operators, gradients' too. Recorded as the two; what reaches the sum on
// other ways is added to the norm's gradient in the norm's kernel (Arrived in autograd/rule.h), which layer_norm and
// rms_norm do wherever their input has another use. In a region with policies of its own, where somebody observes
// operators, and in halves on a CPU, the two run one after the other.
// Other names: fused_add_rms_norm in vLLM and Liger Kernel, SkipLayerNormalization in ONNX Runtime, layer_norm_fn with
// residual and prenorm in FlashAttention.
struct SumAndNorm { Tensor sum, y; };
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& delta, const Dims& normalized_shape,
                          const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
SumAndNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Dims& normalized_shape, const Tensor& weight = {},
                        std::optional<double> eps = {});

}  // namespace mantissa
