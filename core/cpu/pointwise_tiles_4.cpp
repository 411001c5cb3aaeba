// Elementwise loops, part 4: see core/cpu/pointwise_tiles.h.
#include "core/cpu/pointwise_tiles.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
const Entry* const tiles_4 = tiles_of<4>.data();
}
