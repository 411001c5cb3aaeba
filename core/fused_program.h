// Elementwise formulas one after another, computed in one pass over memory: what jit::fuse makes of a function of
// tensors (jit/trace.h). On the CPU what they hand on stays in the first-level cache (core/cpu/fused.cpp), on a GPU in
// registers (cuda/fused.cu).
//
// Values have numbers: first the inputs, then the constants, then the results of the instructions in their order.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "core/kernel.h"

namespace mantissa {

struct FusedProgram {
  struct Instruction {
    int opcode = 0;  // of a formula of core/pointwise.h
    int operands = 0;
    std::array<int, 3> from{};        // numbers of the values it reads
    std::array<double, 4> formula{};  // the formula with its parameters, as it lies in memory
  };
  static constexpr std::size_t most_formula_bytes = sizeof(Instruction::formula);
  static constexpr int most_inputs = 9, most_outputs = 8;

  Dtype compute = f32;  // or f64: in which everything between the inputs and the outputs is computed
  int inputs = 0;
  std::vector<double> constants;
  std::vector<Instruction> instructions;
  std::vector<int> outputs;  // numbers of values
  std::uint64_t id = 0;      // of this program in this process: what was compiled for it is found by that

  int first_result() const { return inputs + static_cast<int>(constants.size()); }
  int values() const { return first_result() + static_cast<int>(instructions.size()); }
};

// y[k] becomes output k, rounded once to its dtype. All of y have one shape and the same strides, without gaps; x are
// the inputs, of any floating dtype or bool, and broadcast to it.
MANTISSA_KERNEL(fused, const FusedProgram& program, std::span<const View> y, std::span<const View* const> x)

namespace cuda_backend {
MANTISSA_ACCELERATOR bool can_fuse();  // whether the CUDA backend was built with NVRTC
}  // namespace cuda_backend

}  // namespace mantissa
