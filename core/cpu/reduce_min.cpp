// Minima; see core/cpu/reduce_extrema.h.
#include "core/cpu/reduce_extrema.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(reduce_min, const View& y, const View& x)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

void reduce_min(const View& y, const View& x) { extremes<Min>(y, x); }

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
