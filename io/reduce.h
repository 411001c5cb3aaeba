// Reduction of the data sent by the ranks of a group (io/tcp_group.h).
#pragma once

#include <cstdint>
#include <span>

#include "io/process_group.h"

namespace mantissa::distributed {

// out[i] = parts[0][i] op parts[1][i] op ..., in this order; `out` may be one of the parts. Floats below f64 are summed
// in f32, f16 and bf16 rounded once at the end; integers wrap around.
void reduce_parts(void* out, std::span<const void* const> parts, std::int64_t n, Dtype dtype, ReduceOp op);

}  // namespace mantissa::distributed
