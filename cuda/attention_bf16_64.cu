#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_bf16_64(const AttentionProblem& p, bool backward) { launch_mma<BFloat16, 64, false>(p, backward); }
}  // namespace mantissa::cuda_backend::flash
