// Operators that do in one pass over memory what several of core/ops.h do, with the same results and gradients.
// Modules that use them: nn::LinearAct, nn::feed_forward, nn::LayerNorm, nn::RMSNorm, nn::TransformerEncoderLayer (and
// batch_norm_relu of core/ops.h: BatchNormAct2d).
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

// linear(linear(x, weight1, bias1, activation), weight2, bias2), the perceptron of a transformer's block: x [*, in],
// weight1 [hidden, in], weight2 [out, hidden], biases or none, result [*, out]. Its results and gradients are those of
// the two calls, to the bit. (On a GPU: where the tuner takes the same products for both.) There, in halves, the
// gradient of the hidden layer, activation'(.) * (g @ weight2), leaves the product's kernel as such: g @ weight2
// is never in memory. Two forms of the hidden layer are kept for backward, as by the two calls: what gelu was
// applied to, and its result, which the gradient of weight2 reads. (To compute the latter again would keep half
// as much, and write it once more.)
Tensor feed_forward(const Tensor& x, const Tensor& weight1, const Tensor& bias1, Activation activation,
                    const Tensor& weight2, const Tensor& bias2);

// A residual connection and the normalisation after it: sum = x + delta and y = layer_norm(sum) or rms_norm(sum), for
//   auto [sum, y] = add_layer_norm(x, delta, {width}, weight, bias);
// x and delta have the same sizes and floating dtypes, maybe different ones; the sum is of the dtype they promote
// to, and so is y but for NormDtype; both are contiguous. Without a delta the sum is x itself. The other arguments
// are those of layer_norm and rms_norm. The sum is rounded to its dtype before it is normalised, so the bits are
// those of the two operators, gradients' too. Recorded as the two; what reaches the sum on other ways is added to
// the norm's gradient in the norm's kernel (Arrived in autograd/rule.h), which layer_norm and rms_norm do wherever
// their input has another use. Where delta is in halves and the sum in f32, that kernel writes delta's gradient in
// halves beside the sum's. In a region with policies of its own, where somebody observes operators, and in halves
// on a CPU, the two run one after the other.
// Other names: fused_add_rms_norm in vLLM and Liger Kernel, SkipLayerNormalization in ONNX Runtime, layer_norm_fn with
// residual and prenorm in FlashAttention.
struct SumAndNorm { Tensor sum, y; };
// The dtype of y where autocast is on and the sum is f32. The sum stays f32, for it is the residual stream; y is what a
// linear layer reads next, which would cast it to the region's dtype in a pass of its own: the same bits. Of the sum
// where y is the stream (normalised after each block). In a region with policies of its own y is what layer_norm or
// rms_norm gives under them; elsewhere it is of the sum's dtype.
enum class NormDtype { of_region, of_sum };
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& delta, const Dims& normalized_shape,
                          const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                          NormDtype dtype = NormDtype::of_region);
SumAndNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Dims& normalized_shape, const Tensor& weight = {},
                        std::optional<double> eps = {}, NormDtype dtype = NormDtype::of_region);

}  // namespace mantissa
