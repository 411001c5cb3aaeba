// What batch_norm and layer_norm share: checks, and their affine part in other operators.
#pragma once

#include "core/ops.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

inline void check_floating(const Tensor& x) {
  check(x.is_floating(), "needs a floating dtype; convert with to(f32)");
}
inline void check_parameter(const Tensor& t, const char* name, const Dims& expected) {
  if (!t.defined()) return;
  check(t.sizes() == expected, name, " has shape ", t.sizes(), ", expected ", expected);
  check(t.is_floating(), name, " is ", t.dtype(), ", expected a floating dtype");
}
inline Tensor scaled(Tensor y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) y = y * weight;
  return bias.defined() ? y + bias : y;
}

}  // namespace mantissa
