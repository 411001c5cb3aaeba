#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_f16_256(const AttentionProblem& p, bool backward) { launch_mma<Half, 256, true>(p, backward); }
}  // namespace mantissa::cuda_backend::flash
