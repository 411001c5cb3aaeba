// gemm_hopper in equal shares for f16: a separate file for faster compilation.
#include "amp/kernels/gemm_sm90.cuh"

namespace mantissa::tensor_core {

bool launch_hopper_shares_f16(const Gemm& g, int clusters, float* space) {
  return sm90::launch<Half, 256, 2, sm90::Division::shares>(g, clusters, space);
}

}  // namespace mantissa::tensor_core
