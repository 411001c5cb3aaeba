// Elementwise loops, part 5: see core/cpu/pointwise_tiles.h.
#include "core/cpu/pointwise_tiles.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
const Entry* const tiles_5 = tiles_of<5>.data();
}
