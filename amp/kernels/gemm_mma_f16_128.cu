// gemm_mma for f16, tiles of 128: a separate file for faster compilation.
#include "amp/kernels/gemm_mma.cuh"

namespace mantissa::tensor_core {

void launch_mma_f16_128(const Gemm& g, int parts, float* partial) { launch_layout<Half, 128, true>(g, parts, partial); }

}  // namespace mantissa::tensor_core
