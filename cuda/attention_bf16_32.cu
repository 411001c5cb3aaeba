#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_bf16_32(const AttentionProblem& p, bool backward) { launch_mma<BFloat16, 32, false>(p, backward); }
}  // namespace mantissa::cuda_backend::flash
