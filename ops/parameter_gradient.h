// Parameter gradients in the parameter's own dtype and, if possible, written or added straight into its existing
// gradient (autograd/place.h). For gradient rules: `to` is their Into<i>, and they return the result.
#pragma once

#include "autograd/rule.h"
#include "core/tensor.h"

namespace mantissa {

// a @ b for matrices; matmul(a, b) for other ranks and if `to` has no special requirements.
Tensor product_into(const Destination& to, const Tensor& a, const Tensor& b);

// Sums g over all dimensions but `kept`, which may be negative. Never accumulates in place: a bias is small.
Tensor sum_into(const Destination& to, const Tensor& g, int kept);

}  // namespace mantissa
