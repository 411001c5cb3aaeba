#include "autograd/last_owner.h"

#include "core/context.h"

namespace mantissa::autograd {

bool may_write_over(const Tensor& t, const Dims& sizes, const Dims& strides, Dtype dtype, Device device) {
  return !context().grad_enabled && t.defined() && held_alone(t) && t.dtype() == dtype && t.device() == device &&
         t.sizes() == sizes && t.strides() == strides && t.nbytes() == t.storage()->nbytes();
}

}  // namespace mantissa::autograd
