// What a function of tensors computes, element by element, and what its gradients compute: the formulas of the
// operators that it calls, written down while it runs on a few numbers. The engine differentiates it as ever, so no
// operator need know of this. Used by jit::fuse.
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
  // Everything: the arguments and the gradient of the result are its inputs. Output i is the gradient of argument i, or
  // -1 where there is none.
  FusedProgram backward;

  // The gradients of the arguments in `wanted` that have one; argument number `arguments` is the gradient of the
  // result.
  TracedPart gradients(std::span<const int> wanted) const;
};

// What dtypes follow from, of an argument: one without dimensions yields to others (ops/promotion.h).
struct Kind {
  Dtype dtype;
  bool scalar = false;
  bool operator==(const Kind&) const = default;
};

// Calls `function` under the thread's autocast, as if arguments of these kinds, of which one at least is no scalar,
// were on `device`. Throws where it does anything that is not elementwise, looks at values, or needs tensors that are
// not its arguments; messages begin with `name`.
Trace trace(const char* name, const ElementwiseFunction& function, std::span<const Kind> kinds, Device device);

}  // namespace mantissa::jit
