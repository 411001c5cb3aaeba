#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_bf16_256(const AttentionProblem& p, bool backward) { launch_mma<BFloat16, 256, true>(p, backward); }
}  // namespace mantissa::cuda_backend::flash
