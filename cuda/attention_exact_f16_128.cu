#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_f16_128(const AttentionProblem& p, bool backward) { launch_mma<Half, 128, true>(p, backward); }
}  // namespace mantissa::cuda_backend::flash
