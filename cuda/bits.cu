// Shifts, gcd, lcm, nextafter and frexp.
#include "core/bit_functions.h"
#include "core/kernel.h"
#include "cuda/elementwise.cuh"

namespace mantissa {
MANTISSA_KERNEL(bit_pair, bits::Pair pair, const View& y, const View& a, const View& b)
MANTISSA_KERNEL(frexp, const View& mantissa, const View& exponent, const View& x)
}  // namespace mantissa

namespace mantissa::cuda_backend {

void bit_pair(bits::Pair pair, const View& y, const View& a, const View& b) {
  const View* inputs[] = {&a, &b};
  const ElementwiseLoop loop = plan_elementwise(y, inputs);
  bits::visit(pair, [&]<class F>(const F& formula) {
    if constexpr (F::integers) launch_elementwise<F, std::int64_t, 2>("bit_pair", formula, loop);
    else if (y.dtype == f64) launch_elementwise<F, double, 2>("bit_pair", formula, loop);
    else launch_elementwise<F, float, 2>("bit_pair", formula, loop);
  });
}

void frexp(const View& mantissa, const View& exponent, const View& x) {
  const View* inputs[] = {&x};
  visit_compute(x.dtype, [&]<class C>() {
    launch_elementwise<bits::Mantissa, C, 1>("frexp", {}, plan_elementwise(mantissa, inputs));
    constexpr bool packs = false;  // the exponent is i32
    launch_elementwise<bits::Exponent, C, 1, packs>("frexp", {}, plan_elementwise(exponent, inputs));
  });
}

}  // namespace mantissa::cuda_backend
