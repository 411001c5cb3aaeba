// Gradients of parameters, computed in the dtype that the parameter is in and, where that can be, straight into what it
// holds already (autograd/place.h). For rules of gradients: `to` is their Into<i>, and the result what they return.
#pragma once

#include "autograd/rule.h"
#include "core/tensor.h"

namespace mantissa {

// a @ b. Of matrices; of anything else, and where `to` asks for nothing more, matmul(a, b).
Tensor product_into(const Destination& to, const Tensor& a, const Tensor& b);

// The sums of g over all its dimensions but `kept`, which may be negative. Never added in place: a bias is small.
Tensor sum_into(const Destination& to, const Tensor& g, int kept);

}  // namespace mantissa
