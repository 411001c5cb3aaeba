// gamma_slope, always computed in f64. Mirrors core/cpu/gamma_slope.cpp.
#include "core/gamma_slope_formula.h"
#include "core/kernel.h"
#include "cuda/elementwise.cuh"

namespace mantissa {
MANTISSA_KERNEL(gamma_slope, const View& y, const View& alpha, const View& x)
}

namespace mantissa::cuda_backend {

void gamma_slope(const View& y, const View& alpha, const View& x) {
  const View* inputs[] = {&alpha, &x};
  visit_compute(y.dtype, [&]<class C>() {
    launch_elementwise<special::GammaSlope, C, 2>("gamma_slope", {}, plan_elementwise(y, inputs));
  });
}

}  // namespace mantissa::cuda_backend
