// Elementwise loops, part 0: see core/cpu/pointwise_tiles.h.
#include "core/cpu/pointwise_tiles.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
const Entry* const tiles_0 = tiles_of<0>.data();
}
