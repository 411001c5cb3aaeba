#include "cuda/norm_backward.cuh"

namespace mantissa::cuda_backend {
void rms_norm_backward(const RowNormGradient& f) { norm_backward<false>(f); }
}  // namespace mantissa::cuda_backend
