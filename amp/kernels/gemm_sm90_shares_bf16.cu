// gemm_hopper in equal shares for bf16: a separate file for faster compilation.
#include "amp/kernels/gemm_sm90.cuh"

namespace mantissa::tensor_core {

bool launch_hopper_shares_bf16(const Gemm& g, int clusters, float* space) {
  return sm90::launch<BFloat16, 256, 2, sm90::Division::shares>(g, clusters, space);
}

}  // namespace mantissa::tensor_core
