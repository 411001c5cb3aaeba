// gamma_slope, one element at a time: a series of a few to a few hundred terms.
#include "core/gamma_slope_formula.h"

#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(gamma_slope, const View& y, const View& alpha, const View& x)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

void gamma_slope(const View& y, const View& alpha, const View& x) {
  visit_compute(y.dtype, [&]<class C> {
    const Dense<C> a(alpha), b(x);
    DenseResult<C> to(y);
    parallel_for(y.numel(), 64, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) to.data()[i] = special::GammaSlope{}.f(a.data()[i], b.data()[i]);
    });
    to.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
