// gemm_hopper_split for bf16: a separate file for faster compilation.
#include "amp/kernels/gemm_sm90_split.cuh"

namespace mantissa::tensor_core {

bool launch_hopper_split_bf16(const Gemm& g, int parts) {
  return parts == 2 ? sm90::launch_split<BFloat16, 128, 2>(g) : sm90::launch_split<BFloat16, 128, 4>(g);
}

}  // namespace mantissa::tensor_core
