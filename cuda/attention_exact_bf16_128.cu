#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_bf16_128(const AttentionProblem& p, bool backward) { launch_mma<BFloat16, 128, true>(p, backward); }
}  // namespace mantissa::cuda_backend::flash
