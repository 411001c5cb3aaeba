// gemm_hopper for bf16: a separate file for faster compilation.
#include "amp/kernels/gemm_sm90.cuh"

namespace mantissa::tensor_core {

bool launch_hopper_bf16(const Gemm& g, int tile, int blocks) { return sm90::choose_tile<BFloat16>(g, tile, blocks); }

}  // namespace mantissa::tensor_core
