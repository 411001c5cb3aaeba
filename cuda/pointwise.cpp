// Selects the launch for a formula; the kernels are in cuda/elementwise.cuh.
#include "core/kernel.h"
#include "cuda/pointwise_entry.h"

namespace mantissa {
MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)
}

namespace mantissa::cuda_backend {

void pointwise(int opcode, const void* formula, Dtype compute, const View& y, std::span<const View* const> x) {
  if (y.numel() == 0) return;
  const PointwiseEntry* const parts[pointwise_files] = {pointwise_0, pointwise_1, pointwise_2, pointwise_3,
                                                        pointwise_4, pointwise_5, pointwise_6, pointwise_7};
  const PointwiseEntry& e = parts[opcode % pointwise_files][opcode / pointwise_files];
  (compute == f64 ? e.f64 : compute == i64 ? e.i64 : e.f32)(formula, plan_elementwise(y, x));
}

}  // namespace mantissa::cuda_backend
