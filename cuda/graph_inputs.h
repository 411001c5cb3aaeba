// What a captured step needs in its place before a replay: one launch.
#pragma once

#include <cstdint>
#include <span>

#include "core/accelerator.h"

namespace mantissa::cuda_backend {

// Copies the inputs and writes {seed, offset} to `random`, in device memory.
void place_inputs(std::span<const GraphInput> inputs, std::uint64_t* random, std::uint64_t seed, std::uint64_t offset);

}  // namespace mantissa::cuda_backend
