// Special functions, always computed in f64. Mirrors core/cpu/special.cpp.
#include "core/special_functions.h"

#include "core/kernel.h"
#include "cuda/elementwise.cuh"

namespace mantissa {
MANTISSA_KERNEL(special_unary, const View& y, const View& x, int which)
MANTISSA_KERNEL(special_binary, const View& y, const View& a, const View& b, int which)
}

namespace mantissa::cuda_backend {

void special_unary(const View& y, const View& x, int which) {
  const View* inputs[] = {&x};
  visit_compute(y.dtype, [&]<class C>() {
    launch_elementwise<special::UnaryFunction, C, 1>("special_unary", {static_cast<special::Unary>(which)},
                                                     plan_elementwise(y, inputs));
  });
}

void special_binary(const View& y, const View& a, const View& b, int which) {
  const View* inputs[] = {&a, &b};
  visit_compute(y.dtype, [&]<class C>() {
    launch_elementwise<special::BinaryFunction, C, 2>("special_binary", {static_cast<special::Binary>(which)},
                                                      plan_elementwise(y, inputs));
  });
}

}  // namespace mantissa::cuda_backend
