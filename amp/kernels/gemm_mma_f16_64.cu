// gemm_mma for f16, tiles of 64: a separate file for faster compilation.
#include "amp/kernels/gemm_mma.cuh"

namespace mantissa::tensor_core {

void launch_mma_f16_64(const Gemm& g, bool vector, int parts, float* partial) {
  vector ? launch_layout<Half, 64, true>(g, parts, partial) : launch_layout<Half, 64, false>(g, parts, partial);
}

}  // namespace mantissa::tensor_core
