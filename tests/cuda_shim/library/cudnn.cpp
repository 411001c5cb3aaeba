// No cuDNN under the shim: convolutions are unfolded into products (cuda/conv.cu), attention has its own kernels.
#include "cuda/cudnn.h"

bool mantissa::cuda_backend::has_cudnn() { return false; }
std::string mantissa::cuda_backend::cudnn_version() { return "none: the CPU shim"; }
bool mantissa::cuda_backend::run_cudnn(ConvPass, const ConvShape&, Layout, const View&, const View&, const View&,
                                       const View&, int) {
  return false;
}
bool mantissa::cuda_backend::run_cudnn_attention(const AttentionProblem&, const AttentionBias&, bool, Device, int) {
  return false;
}
