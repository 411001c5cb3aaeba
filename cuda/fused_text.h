// The source of a fused program's kernels, for NVRTC.
#pragma once

#include <string>

#include "core/fused_program.h"

namespace mantissa::cuda_backend {

// Two kernels of one parameter, a Walk (cuda/walk.cuh) over outputs and inputs: `fused_packs` and `fused_elements`. The
// text depends on the program alone, and not on the dtypes in memory.
std::string text_of(const FusedProgram& program);
// How many operands a formula has; 0 for those of integers alone, which no program contains.
int operands_of(int opcode);

}  // namespace mantissa::cuda_backend
