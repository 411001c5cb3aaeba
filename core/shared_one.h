// The number 1 in a tensor that is made once, so that no kernel writes it again in every step: the gradient with which
// backward begins, and the loss scale where there is none.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// 1, 0-d: a constant of this thread, which nobody may write to. If a captured step is the first to ask for it, it is
// not kept: only a replay would write it.
Tensor shared_one(Device device, Dtype dtype);

}  // namespace mantissa
