// Norms and sums without NaN over any set of dimensions; see core/cpu/reduce.cpp.
#include "core/cpu/reduce.h"

#include <cmath>

#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(reduce_norm, const View& y, const View& x)
MANTISSA_KERNEL(reduce_nansum, const View& y, const View& x)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

// y = sqrt(sum(x^2)), in the compute dtype and contiguous.
void reduce_norm(const View& y, const View& x) {
  visit_compute(x.dtype, [&]<class C> {
    const ReducePlan plan(y.sizes, x);
    C* out = y.as<C>();
    reduce<Sum>(plan, MappedElements<C, Square>{x}, out);
    for (std::int64_t i = 0; i < plan.outputs; ++i) out[i] = std::sqrt(out[i]);
  });
}

// y = the sum of the elements that are not NaN.
void reduce_nansum(const View& y, const View& x) {
  visit_compute(x.dtype, [&]<class C> {
    DenseResult<C> out(y);
    reduce<Sum>(ReducePlan(y.sizes, x), MappedElements<C, NanToZero>{x}, out.data());
    out.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
