// Convolutions of images and volumes, and attention, by cuDNN's graph API. Without it cuda/conv.cu unfolds images for
// matrix products, and cuda/attention.cu has its own kernels. Under the CPU shim tests/cuda_shim/cudnn.cpp stands in
// for the library where a test asks for it.
#pragma once

#include <string>

#include "core/conv.h"
#include "cuda/attention.h"

namespace mantissa::cuda_backend {

inline constexpr int most_cudnn_plans = 8;
// Each of these is compiled at run time, for tenths of a second.
inline constexpr int most_cudnn_attention_plans = 2, most_cudnn_relu_plans = 2, most_cudnn_unrounded_plans = 1;
bool has_cudnn();
std::string cudnn_version();  // "9.13.0", or why it is unavailable

// Runs plan number `plan` in the order of cuDNN's heuristic (0: the best). Returns false if there are fewer, or cuDNN
// refuses the problem. Operands, weights too, are dense in `layout` and of y's dtype, except that a weight gradient may
// be f32 for halves; sums are f32 (f64 for f64). bias: forward only, optional, of y's dtype, added before the sum is
// rounded. relu: before that, too; for halves.
bool run_cudnn(ConvPass pass, const ConvShape& shape, Layout layout, const View& y, const View& a, const View& b,
               const View& bias, const ConvRelu& relu, int plan);

// The same for attention in f16 and bf16 whose weights may be rounded: computes y and lse, or with `backward`
// everything that attention_backward does. A mask is passed as `bias`. Returns false for dropout, other dtypes, and
// rows that are not 16-byte aligned. A query with every key masked gets an lse of about -2e38 and an undefined y.
bool run_cudnn_attention(const AttentionProblem& problem, const AttentionBias& bias, bool backward, Device device,
                         int plan);

}  // namespace mantissa::cuda_backend
