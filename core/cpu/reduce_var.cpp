// Variances over any set of dimensions; see core/cpu/reduce.cpp.
#include "core/cpu/reduce.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(reduce_var, const View& y, const View& x, double divisor)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

// y = sum((x - mean)^2) / divisor, in two passes. The rounding error of the mean adds its square to every term:
// negligible unless the mean is over a thousand times the deviation (in f32); then it is corrected by the sum of the
// deviations.
void reduce_var(const View& y, const View& x, double divisor) {
  visit_compute(x.dtype, [&]<class C> {
    DenseResult<C> out(y);
    const ReducePlan plan(y.sizes, x);
    const auto room = static_cast<std::size_t>(plan.outputs);
    const auto n = static_cast<C>(plan.count);
    std::unique_ptr<C[]> mean(new C[room]), away;
    reduce<Sum>(plan, Elements<C>{x}, mean.get());
    for (std::size_t i = 0; i < room; ++i) mean[i] = mean[i] / n;
    reduce<Sum>(plan, Deviations<C, true>{x}, out.data(), static_cast<const C*>(mean.get()));
    for (std::size_t i = 0; i < room; ++i) {
      C& squares = out.data()[i];
      if (mean[i] * mean[i] * n * (8 * std::numeric_limits<C>::epsilon()) > squares) {
        if (!away) {
          away.reset(new C[room]);
          reduce<Sum>(plan, Deviations<C, false>{x}, away.get(), static_cast<const C*>(mean.get()));
        }
        squares = std::max(C(0), squares - away[i] * (away[i] / n));
      }
      squares = squares / static_cast<C>(divisor);
    }
    out.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
