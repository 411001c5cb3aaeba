// lgamma, digamma and polygamma. Always computed in f64: they are rare, and their series lose precision in f32.
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
