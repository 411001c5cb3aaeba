#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_f16_64_backward(const AttentionProblem& p) { launch_mma_backward<Half, 64, true>(p); }
}  // namespace mantissa::cuda_backend::flash
