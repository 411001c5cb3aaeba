// Tables that operators derive from shapes alone: indices, weights of taps. A GPU keeps them: whoever asks again for
// the same numbers gets the same tensor and nothing is copied from the host, so that a step that repeats its shapes can
// be captured once it has run. They stay for the life of the process, because captured graphs read them; beyond 16 MiB
// of them new ones are not kept. On the CPU each is a new tensor.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace mantissa {

// Not to be written to.
Tensor device_table(std::span<const std::int64_t> values, const Dims& sizes, Device device);
Tensor device_table(std::span<const double> values, const Dims& sizes, Dtype dtype, Device device);  // rounded to dtype
Tensor device_range(std::int64_t count, Device device);  // 0, 1, ... count - 1 in i64

}  // namespace mantissa
