#include "cuda/norm_backward.cuh"

namespace mantissa::cuda_backend {

void rms_norm_backward(const RowNormGradient& f);

void row_norm_backward(const RowNormGradient& f) {
  if (f.dbias) norm_backward<true>(f);
  else rms_norm_backward(f);
}

}  // namespace mantissa::cuda_backend
