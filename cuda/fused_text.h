// Generates the source of a fused program's kernels, for NVRTC.
#pragma once

#include <string>

#include "core/fused_program.h"

namespace mantissa::cuda_backend {

// Two kernels with one parameter, a Walk (cuda/walk.cuh) over outputs and inputs: `fused_packs` and `fused_elements`.
// The source depends only on the program, not on the dtypes in memory.
std::string text_of(const FusedProgram& program);
// The number of operands of a formula; 0 for integer-only formulas, which no program contains.
int operands_of(int opcode);

}  // namespace mantissa::cuda_backend
