// lgamma, digamma and polygamma, one element at a time.
#include "core/gamma_functions.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
// y of x's sizes and dtype, contiguous; x of any strides. order: see special::GammaFunction.
MANTISSA_KERNEL(gamma_function, const View& y, const View& x, std::int64_t order)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

void gamma_function(const View& y, const View& x, std::int64_t order) {
  const special::GammaFunction function{order};
  visit_floating(x.dtype, [&]<class T> {
    const T* from = x.as<const T>();
    T* to = y.as<T>();
    parallel_for(y.numel(), 256, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        std::int64_t at = 0, rest = i;
        for (int d = x.dim() - 1; d >= 0; --d) {
          at += rest % x.sizes[d] * x.strides[d];
          rest /= x.sizes[d];
        }
        to[i] = static_cast<T>(function.f(static_cast<Compute<T>>(from[at])));
      }
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
