// Master weights: a parameter's value in its compute dtype (f32 for f16 and bf16), which updates operate on and which
// is rounded into the parameter.
// Invariant: rounded, it equals the parameter, unless the parameter was written to directly.
#pragma once

#include "autograd/grad_mode.h"
#include "core/ops.h"

namespace mantissa::optim {

inline Tensor make_master(const Tensor& parameter) {
  const NoGrad no_grad;
  return Tensor::allocate(parameter.sizes(), compute_dtype(parameter.dtype()), parameter.device(), parameter.layout())
      .copy_(parameter.detach());
}

// After a write to the parameter: copies its elements to the master, except where the rounded master still equals them.
inline void follow(const Tensor& master, const Tensor& parameter) {
  const NoGrad no_grad;
  const Tensor m = master.detach(), p = parameter.detach();
  Tensor(m).copy_(where(eq(m.to(p.dtype()), p), m, p.to(m.dtype())));
}

}  // namespace mantissa::optim
