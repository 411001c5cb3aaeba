// A sequence of elementwise formulas, computed in one pass over memory: what jit::fuse compiles a function of tensors
// to (jit/trace.h). Intermediate values stay in the L1 cache on the CPU (core/cpu/fused.cpp), and in registers on a GPU
// (cuda/fused.cu).
//
// Values are numbered: first the inputs, then the constants, then the results of the instructions in order.
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
    std::array<double, 4> formula{};  // the bytes of the formula struct with its parameters
  };
  static constexpr std::size_t most_formula_bytes = sizeof(Instruction::formula);
  static constexpr int most_inputs = 9, most_outputs = 8;

  Dtype compute = f32;  // or f64: dtype of everything between the inputs and the outputs
  int inputs = 0;
  std::vector<double> constants;
  std::vector<Instruction> instructions;
  std::vector<int> outputs;  // numbers of values
  std::uint64_t id = 0;      // unique in this process: key of its compiled code

  int first_result() const { return inputs + static_cast<int>(constants.size()); }
  int values() const { return first_result() + static_cast<int>(instructions.size()); }
};

// y[k] is output k, rounded once to its dtype. All of y have one shape and the same dense strides; x are the inputs, of
// any floating dtype or bool, and broadcast to that shape.
MANTISSA_KERNEL(fused, const FusedProgram& program, std::span<const View> y, std::span<const View* const> x)

namespace cuda_backend {
MANTISSA_ACCELERATOR bool can_fuse();  // whether the CUDA backend was built with NVRTC
}  // namespace cuda_backend

}  // namespace mantissa
