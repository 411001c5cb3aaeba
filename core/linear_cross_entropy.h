// cross_entropy(linear(x, weight, bias), target) without the logits of all rows, which for a language model are the
// largest tensor of a training step: 8192 tokens of GPT-2 make 824 MB in bf16. Follows torch.nn.functional's function
// of this name with its options; the module is nn::LinearCrossEntropyLoss.
//
// Rows are taken in chunks. A chunk's logits are computed, and one pass turns them into losses and, in their place,
// into the gradient softmax - onehot; two products add that to the gradients of x and weight before the next chunk
// overwrites it. Backward multiplies these gradients by the one that arrives. (The idea is that of Liger Kernel, Hsu et
// al. 2024.)
//
// When to use it: to save the memory of logits that are large beside x and weight: many rows by some ten thousand
// classes. It does the same three products as the two operators and takes about as long (on a CPU 0.98 to 1.11 times
// for GPT-2's 8192 x 50304; docs/experiments.md has times and bytes). With few classes, or to look at the logits, take
// the two operators.
#pragma once

#include "core/ops.h"

namespace mantissa {

struct LinearCrossEntropyOptions {
  double label_smoothing = 0;
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  std::int64_t batch_chunk_size = 0;  // rows in a chunk; 0: by the shape, see linear_cross_entropy_chunk
};

// x [in], [N, in] or [B, T, in] (PyTorch has no such form); weight [C, in]; target i64 labels [], [N] or [B, T]; bias
// [C] or undefined; class_weight [C] or undefined. A scalar, with Reduction::none as target. x, weight and bias have
// one dtype, f64, f32, f16 or bf16, which the result has too; in an autocast region they are cast as by linear, and the
// loss is in f32.
//
// Differs from the two operators by rounding. Gradients of x, weight and bias are summed over all chunks in f32 (or
// f64) and rounded once; f16 gradients of logits are held scaled up, so that no class is too rare for them whatever the
// loss scale. They are computed in the forward pass, of the arguments that require one there, and held until backward
// runs.
//
// The two operators run instead, logits and all, for Reduction::none while a gradient is recorded; for a target of
// probabilities; for weight [C, d1, ..., in], which gives logits [N, C, d1, ...] as PyTorch has it, with bias [C, d1,
// ...] and target [N, d1, ...]; and in second derivatives (create_graph).
//
// Labels out of range are an error, on a GPU at the next point where the host waits. Results are the same bits for any
// number of threads, and depend on the chunk by rounding alone.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias = {},
                            const LinearCrossEntropyOptions& options = {}, const Tensor& class_weight = {});

// How many rows a chunk has unless the options say so: as many as keep its logits below 256 MiB on a GPU, where
// products of some thousand rows fill it, and below 128 MiB on a CPU; whole multiples of 128, all chunks about equal.
// Smaller chunks cost time: each reads and writes the gradient of weight once, in f32, and on a CPU packs weight twice.
std::int64_t linear_cross_entropy_chunk(std::int64_t rows, std::int64_t classes, Dtype dtype, Device device);

}  // namespace mantissa
