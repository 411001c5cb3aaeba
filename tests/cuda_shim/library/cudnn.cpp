// No cuDNN under the shim: convolutions are unfolded into products (cuda/conv.cu), attention has its own kernels. For
// what surrounds cuDNN's attention (cuda/attention.cu) a test may have those kernels stand in for it.
#include "cuda/cudnn.h"

#include "tests/cuda_shim/cudnn.h"

namespace {
bool stands_in = false;
}
void cuda_shim::stand_in_for_cudnn_attention(bool on) { stands_in = on; }

bool mantissa::cuda_backend::has_cudnn() { return false; }
std::string mantissa::cuda_backend::cudnn_version() { return "none: the CPU shim"; }
bool mantissa::cuda_backend::run_cudnn(ConvPass, const ConvShape&, Layout, const View&, const View&, const View&,
                                       const View&, int) {
  return false;
}
// As cuDNN, it adds a finite bias: it does not know which keys are hidden.
bool mantissa::cuda_backend::run_cudnn_attention(const AttentionProblem& problem, const AttentionBias& bias,
                                                 bool backward, Device, int plan) {
  if (!stands_in || plan > 0) return false;
  AttentionProblem p = problem;
  p.mask = bias.data;
  p.mask_dtype = f32;
  std::int64_t stride = 1;
  for (int d = 3; d >= 0; --d) {
    p.mask_strides[d] = bias.sizes[d] == 1 ? 0 : stride;
    stride *= bias.sizes[d];
  }
  if (backward) attention_backward(p);
  else attention_forward(p);
  return true;
}
