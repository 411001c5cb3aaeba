#include "cuda/attention_mma.cuh"

namespace mantissa::cuda_backend::flash {
void run_exact_bf16_64_backward(const AttentionProblem& p);  // in a file of its own: they take long to compile
void run_exact_bf16_64(const AttentionProblem& p, bool backward) {
  if (backward) run_exact_bf16_64_backward(p);
  else launch_mma_forward<BFloat16, 64, true>(p);
}
}  // namespace mantissa::cuda_backend::flash
