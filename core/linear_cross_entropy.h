// cross_entropy(linear(x, weight, bias), target) without storing the logits of all rows, which for a language model are
// the largest tensor of a training step: 8192 tokens of GPT-2 take 824 MB in bf16. Same options as the
// torch.nn.functional function of this name; the module is nn::LinearCrossEntropyLoss.
//
// Rows are processed in chunks. A chunk's logits are computed, one pass converts them to losses and, in place, to their
// gradient softmax - onehot; two products then accumulate the gradients of x and weight before the next chunk
// overwrites it. Backward multiplies these by the incoming gradient. (The idea is that of Liger Kernel, Hsu et al.
// 2024.)
//
// When to use it: to save memory when logits are large compared with x and weight: many rows by tens of thousands of
// classes. It computes the same three products as the two operators and takes about as long (on a CPU 0.98 to 1.11
// times for GPT-2's 8192 x 50304; docs/experiments.md has times and bytes). With few classes, or if the logits are
// needed, use the two operators.
#pragma once

#include "core/ops.h"

namespace mantissa {

struct LinearCrossEntropyOptions {
  double label_smoothing = 0;
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  std::int64_t batch_chunk_size = 0;  // rows per chunk; 0: by the shape, see linear_cross_entropy_chunk
};

// x [in], [N, in] or [B, T, in] (the last not in PyTorch); weight [C, in]; target i64 labels [], [N] or [B, T]; bias
// [C] or undefined; class_weight [C] or undefined. Returns a scalar, with Reduction::none target's shape. x, weight and
// bias have one dtype, f64, f32, f16 or bf16, which is also the result's; in an autocast region they are cast as by
// linear, and the loss is f32.
//
// Equal to the two operators up to rounding. Gradients of x, weight and bias are summed over all chunks in f32 (or f64)
// and rounded once; f16 gradients of logits are stored scaled up, so that those of rare classes do not underflow,
// whatever the loss scale. Gradients are computed in the forward pass, for the arguments that require one then, and
// kept until backward runs.
//
// The two operators run instead, materialising the logits, for Reduction::none while a gradient is recorded; for a
// target of probabilities; for weight [C, d1, ..., in], which gives logits [N, C, d1, ...] as in PyTorch, with
// bias [C, d1, ...] and target [N, d1, ...]; and in second derivatives (create_graph).
//
// Labels out of range are an error, on a GPU reported the next time the host waits. Results have the same bits for any
// number of threads, and depend on the chunk size only by rounding.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias = {},
                            const LinearCrossEntropyOptions& options = {}, const Tensor& class_weight = {});

// Default rows per chunk: as many as keep its logits below 256 MiB on a GPU, where products of a few thousand rows fill
// it, and below 128 MiB on a CPU; multiples of 128, all chunks about equal. Smaller chunks cost time: each reads and
// writes the gradient of weight once, in f32, and on a CPU packs weight twice.
std::int64_t linear_cross_entropy_chunk(std::int64_t rows, std::int64_t classes, Dtype dtype, Device device);

}  // namespace mantissa
