#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_bf16_64(const AttentionProblem& p, bool backward) { launch_mma<BFloat16, 64, true>(p, backward); }
}  // namespace mantissa::cuda_backend::flash
