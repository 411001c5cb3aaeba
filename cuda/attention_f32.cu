#include "cuda/attention_plain.cuh"

namespace mantissa::cuda_backend::flash {
void run_f32(const AttentionProblem& p, int width, bool backward) {
  if (width <= 64) launch_plain<float, 64>(p, backward);
  else if (width <= 128) launch_plain<float, 128>(p, backward);
  else launch_plain<float, 256>(p, backward);
}
}  // namespace mantissa::cuda_backend::flash
