#include "cuda/attention_plain.cuh"

namespace mantissa::cuda_backend::flash {
void run_f64(const AttentionProblem& p, int width, bool backward) {
  if (width <= 64) launch_plain<double, 64>(p, backward);
  else launch_plain<double, 128>(p, backward);
}
}  // namespace mantissa::cuda_backend::flash
