#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_f16_64(const AttentionProblem& p, bool backward) { launch_mma<Half, 64, true>(p, backward); }
}  // namespace mantissa::cuda_backend::flash
