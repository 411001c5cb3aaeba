// Elementwise loops, part 2: see core/cpu/pointwise_tiles.h.
#include "core/cpu/pointwise_tiles.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
const Entry* const tiles_2 = tiles_of<2>.data();
}
