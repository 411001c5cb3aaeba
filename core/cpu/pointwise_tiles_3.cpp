// Elementwise loops, part 3: see core/cpu/pointwise_tiles.h.
#include "core/cpu/pointwise_tiles.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
const Entry* const tiles_3 = tiles_of<3>.data();
}
