// What the ranks of a group have sent, summed (io/tcp_group.h).
#pragma once

#include <cstdint>
#include <span>

#include "io/process_group.h"

namespace mantissa::distributed {

// out[i] = parts[0][i] op parts[1][i] op ..., in this order; `out` may be one of the parts. Floats below f64 are summed
// in f32, halves are rounded once; integers wrap around.
void reduce_parts(void* out, std::span<const void* const> parts, std::int64_t n, Dtype dtype, ReduceOp op);

}  // namespace mantissa::distributed
