// Maxima; see core/cpu/reduce_extrema.h.
#include "core/cpu/reduce_extrema.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(reduce_max, const View& y, const View& x)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

void reduce_max(const View& y, const View& x) { extremes<Max>(y, x); }

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
