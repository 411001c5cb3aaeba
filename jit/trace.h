// Traces an elementwise function of tensors and its gradients: records the formulas of the operators that it calls
// while it runs on a few numbers. The autograd engine differentiates it as usual, so operators need no support for
// this. Used by jit::fuse.
#pragma once

#include <span>
#include <vector>

#include "core/fused_program.h"
#include "core/tensor.h"
#include "jit/call_with.h"

namespace mantissa::jit {

// A program, and which of the function's arguments are its inputs.
struct TracedPart {
  FusedProgram program;
  std::vector<int> arguments;
};
struct Trace {
  int arguments = 0;
  Dtype result = f32;
  TracedPart forward;  // one output
  // All gradients: the inputs are the arguments and the gradient of the result. Output i is the gradient of argument i,
  // or -1 if it has none.
  FusedProgram backward;

  // The gradients of those arguments in `wanted` that have one; argument number `arguments` stands for the result's
  // gradient.
  TracedPart gradients(std::span<const int> wanted) const;
};

// The properties of an argument that decide dtypes: 0-d tensors do not promote others (ops/promotion.h).
struct Kind {
  Dtype dtype;
  bool scalar = false;
  bool operator==(const Kind&) const = default;
};

// Calls `function` under the thread's autocast state, as if arguments of these kinds, at least one of them not a
// scalar, were on `device`. Throws if it does anything that is not elementwise, reads values, or uses tensors that are
// not its arguments; messages start with `name`.
Trace trace(const char* name, const ElementwiseFunction& function, std::span<const Kind> kinds, Device device);

}  // namespace mantissa::jit
