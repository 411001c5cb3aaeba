// lgamma, digamma and polygamma. In f64 whatever the dtype: they are rare, and their series in f32 lose digits.
#include "core/gamma_functions.h"
#include "core/kernel.h"
#include "cuda/elementwise.cuh"

namespace mantissa {
MANTISSA_KERNEL(gamma_function, const View& y, const View& x, std::int64_t order)
}

namespace mantissa::cuda_backend {

void gamma_function(const View& y, const View& x, std::int64_t order) {
  const View* inputs[] = {&x};
  visit_compute(y.dtype, [&]<class C>() {
    launch_elementwise<special::GammaFunction, C, 1>("gamma_function", {order}, plan_elementwise(y, inputs));
  });
}

}  // namespace mantissa::cuda_backend
