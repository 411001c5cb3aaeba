// What operators on floats ask of a dtype.
#pragma once

#include <limits>

#include "core/ops.h"

namespace mantissa {

inline void check_floating(const Tensor& x) {
  check(x.is_floating(), "needs a floating dtype; convert with to(f32)");
}
// x as functions read it that give f32 for integers.
inline Tensor floating(const Tensor& x) { return x.is_floating() ? x : cast(x, f32); }
// Of the dtype that `t` is computed in: halves are widened to f32. (PyTorch documents that of x's dtype as rms_norm's
// eps, and takes this one.)
inline double epsilon_of(Dtype t) {
  return t == f64 ? std::numeric_limits<double>::epsilon() : static_cast<double>(std::numeric_limits<float>::epsilon());
}

}  // namespace mantissa
