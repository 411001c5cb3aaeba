// Dtype helpers of floating-point operators.
#pragma once

#include <limits>

#include "core/ops.h"

namespace mantissa {

inline void check_floating(const Tensor& x) {
  check(x.is_floating(), "needs a floating dtype; convert with to(f32)");
}
// For functions that return f32 for integer inputs: x, converted to f32 if it is not floating.
inline Tensor floating(const Tensor& x) { return x.is_floating() ? x : cast(x, f32); }
// Machine epsilon of the dtype that `t` is computed in: f32 for f16 and bf16. (PyTorch documents rms_norm's default eps
// as that of x's dtype, but uses this one.)
inline double epsilon_of(Dtype t) {
  return t == f64 ? std::numeric_limits<double>::epsilon() : static_cast<double>(std::numeric_limits<float>::epsilon());
}

}  // namespace mantissa
