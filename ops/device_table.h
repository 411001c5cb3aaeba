// Constant tables that operators derive from shapes alone: indices, filter weights. They are cached per GPU: asking
// again for the same numbers returns the same tensor without a copy from the host, so a step with repeated shapes can
// be captured in a CUDA graph after it has run once. Cached tables live until the process ends, because captured graphs
// read them; once they total 16 MiB, new ones are no longer cached. On the CPU each call makes a new tensor.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace mantissa {

// The returned tensors must not be written to.
Tensor device_table(std::span<const std::int64_t> values, const Dims& sizes, Device device);
Tensor device_table(std::span<const double> values, const Dims& sizes, Dtype dtype, Device device);  // rounded to dtype

}  // namespace mantissa
