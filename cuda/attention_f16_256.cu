#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_f16_256(const AttentionProblem& p, bool backward) { launch_mma<Half, 256, false>(p, backward); }
}  // namespace mantissa::cuda_backend::flash
