// Convolutions and attention by cuDNN's graph API. Under the CPU shim, and in a build without cuDNN, nothing applies:
// cuda/conv.cu unfolds images into products, cuda/attention.cu has kernels of its own.
#pragma once

#include <string>

#include "core/conv.h"
#include "cuda/attention.h"

namespace mantissa::cuda_backend {

inline constexpr int most_cudnn_plans = 8;
bool has_cudnn();
std::string cudnn_version();  // "9.13.0", or why there is none

// Runs the plan that cuDNN's own estimate puts at place `plan` (0: the best); false where there are fewer, or it
// refuses the problem. Operands are dense in `layout`, weights too, of y's dtype, and summed in f32 (f64 for f64).
// bias: of the forward pass, of y's dtype, added before the sum is rounded; or absent.
bool run_cudnn(ConvPass pass, const ConvShape& shape, Layout layout, const View& y, const View& a, const View& b,
               const View& bias, int plan);

// The same for attention of halves whose weights may be rounded: y and lse, or with `backward` all that
// attention_backward computes. A mask comes as `bias`. False for dropout, other dtypes, and rows that are not 16-byte
// aligned. A query that may look at nothing gets an lse of about -3e38, and a y that means nothing.
bool run_cudnn_attention(const AttentionProblem& problem, const AttentionBias& bias, bool backward, Device device,
                         int plan);

}  // namespace mantissa::cuda_backend
