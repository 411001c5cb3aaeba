#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_f16_64_backward(const AttentionProblem& p);  // in a file of its own: they take long to compile
void run_exact_f16_64(const AttentionProblem& p, bool backward) {
  if (backward) run_exact_f16_64_backward(p);
  else launch_mma_forward<Half, 64, true>(p);
}
}  // namespace mantissa::cuda_backend::flash
