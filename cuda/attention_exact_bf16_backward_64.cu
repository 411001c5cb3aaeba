#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_bf16_64_backward(const AttentionProblem& p) { launch_mma_backward<BFloat16, 64, true>(p); }
}  // namespace mantissa::cuda_backend::flash
