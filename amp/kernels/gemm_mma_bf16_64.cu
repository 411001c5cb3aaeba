// gemm_mma for bf16, tiles of 64: a separate file for faster compilation.
#include "amp/kernels/gemm_mma.cuh"

namespace mantissa::tensor_core {

void launch_mma_bf16_64(const Gemm& g, bool vector, int parts, float* partial) {
  vector ? launch_layout<BFloat16, 64, true>(g, parts, partial) : launch_layout<BFloat16, 64, false>(g, parts, partial);
}

}  // namespace mantissa::tensor_core
