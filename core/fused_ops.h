// Fused operators: one pass over memory for what takes several operators of core/ops.h, with the same results and
// gradients. Used by the modules nn::LinearAct, nn::ConvReLU2d, nn::LayerNorm, nn::RMSNorm, nn::TransformerEncoderLayer
// (and nn::BatchNormAct2d, which uses batch_norm_relu of core/ops.h).
#pragma once

#include <optional>

#include "core/activation.h"
#include "core/ops.h"
#include "core/tensor.h"

namespace mantissa {

// activation(linear(x, weight, bias)): x [*, in], weight [out, in], bias [out] or absent, result [*, out]. The linear
// result is rounded to the dtype before the activation, so the bits are those of the two operators (on a GPU, if the
// tuner picks the same product for both, cuda/gemm.cpp). Autograd records the two operators: relu saves its result,
// gelu its input, which the product writes to memory only if a gradient is being recorded. In an autocast region
// with its own policies, and under an Observer (amp/observe.h), the two operators run one after the other.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation);

// linear(linear(x, weight1, bias1, activation), weight2, bias2), the feed-forward part of a transformer block:
// x [*, in], weight1 [hidden, in], weight2 [out, hidden], biases optional, result [*, out]. As after any activation,
// the product that computes the gradient of the hidden layer, activation'(.) * (g @ weight2), applies the derivative as
// well: on a GPU in f16 and bf16 in its epilogue, so that g @ weight2 is never written to memory. Backward saves two
// tensors of the hidden layer's size: the input of gelu and its result, which the gradient of weight2 reads.
// (Recomputing the result would halve that, at the price of writing it once more.)
Tensor feed_forward(const Tensor& x, const Tensor& weight1, const Tensor& bias1, Activation activation,
                    const Tensor& weight2, const Tensor& bias2);

// relu(conv2d(x, weight, bias, options)), with conv2d's arguments and errors. On a GPU in f16 and bf16 cuDNN applies
// relu before it rounds the sums, which is one pass over the result less; elsewhere relu is applied in place. Results
// equal those of the two operators; a zero may have the other sign. Autograd records the two, and a convolution that
// reads the result computes the gradient before relu in one kernel, too, as linear layers do. In an autocast region
// with its own policies, and under an Observer, the two operators run one after the other.
Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv2dOptions = {});
Tensor conv3d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv3dOptions = {});

// A residual connection and the normalisation after it: sum = x + delta and y = layer_norm(sum) or rms_norm(sum), for
//   auto [sum, y] = add_layer_norm(x, delta, {width}, weight, bias);
// x and delta have the same sizes; their floating dtypes may differ. The sum has the dtype they promote to, and so has
// y, unless NormDtype says otherwise; both results are contiguous. Without a delta the sum is x itself. The other
// arguments are those of layer_norm and rms_norm. The sum is rounded to its dtype before it is normalised, so results
// and gradients are bitwise those of the two operators, and autograd records the two. The norm's backward kernel adds
// the gradient that reaches the sum from its other consumers (Arrived in autograd/rule.h), as that of layer_norm and
// rms_norm always does. If delta is f16 or bf16 and the sum f32, that kernel writes delta's gradient in delta's dtype,
// too. In an autocast region with its own policies, under an Observer, and in f16 and bf16 on a CPU, the two operators
// run one after the other.
// Other names: fused_add_rms_norm in vLLM and Liger Kernel, SkipLayerNormalization in ONNX Runtime, layer_norm_fn with
// residual and prenorm in FlashAttention.
struct SumAndNorm { Tensor sum, y; };
// The dtype of y under autocast, if the sum is f32. The sum is the residual stream and stays f32. By default y gets the
// region's dtype, because a linear layer reads it next and would otherwise cast it in a separate pass, to the same
// bits. Use of_sum if y itself is the stream (post-norm). In an autocast region with its own policies y has the dtype
// that layer_norm or rms_norm gives under them; outside autocast it has the sum's.
enum class NormDtype { of_region, of_sum };
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& delta, const Dims& normalized_shape,
                          const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                          NormDtype dtype = NormDtype::of_region);
SumAndNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Dims& normalized_shape, const Tensor& weight = {},
                        std::optional<double> eps = {}, NormDtype dtype = NormDtype::of_region);

}  // namespace mantissa
