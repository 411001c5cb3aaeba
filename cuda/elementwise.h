// Host-side planning of an elementwise kernel's loop: operands broadcast to the result, dimensions merged, host scalars
// turned into constants. Next: cuda/elementwise.cuh.
#pragma once

#include <span>

#include "core/fused_program.h"
#include "core/layout.h"
#include "core/tensor.h"

namespace mantissa::cuda_backend {

struct ElementwiseOperand {
  void* data = nullptr;
  Dtype dtype = f32;
  bool constant = false;     // a host scalar, stored as both of:
  double value = 0;
  std::int64_t integer = 0;
};
// The results come first, then the inputs.
template <int most_operands> struct LoopOver {
  using Operand = ElementwiseOperand;
  Dims sizes;
  Dims strides[most_operands];  // in elements
  Operand operand[most_operands];
  int operands = 0, results = 1;
};
using ElementwiseLoop = LoopOver<4>;  // one result, up to three inputs
using FusedLoop = LoopOver<FusedProgram::most_outputs + FusedProgram::most_inputs>;

// Broadcasts the inputs to y and iterates in y's memory order. An input in host memory must have one element.
ElementwiseLoop plan_elementwise(const View& y, std::span<const View* const> x);
// The same for several results with identical sizes and strides.
FusedLoop plan_fused(std::span<const View> y, std::span<const View* const> x);
// Packs (8 elements per access) exist for the dtypes that compute in `compute`, and for small integers mixed with
// floats: fewer cases, less code.
constexpr bool has_packs(Dtype compute, Dtype t) {
  if (compute == f32) return t == f32 || t == f16 || t == bf16 || t == u8 || t == boolean;
  if (compute == f64) return t == f64 || t == boolean;
  return !is_floating(t);
}
// Whether threads can process packs of eight neighbours, computing in `compute`.
bool can_use_packs(const ElementwiseLoop& loop, Dtype compute);
bool can_use_packs(const FusedLoop& loop, Dtype compute);
// Calls run(state, part) for each part of the loop that can be indexed with 32 bits.
void for_indexable_parts(const ElementwiseLoop& loop, void (*run)(const void*, const ElementwiseLoop&),
                         const void* state);
void for_indexable_parts(const FusedLoop& loop, void (*run)(const void*, const FusedLoop&), const void* state);

}  // namespace mantissa::cuda_backend
