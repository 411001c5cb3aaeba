// Special functions: operators as those of core/ops.h, whose conventions hold here too, that few programs need.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// Integers give f32. The gradient of each is the next: lgamma, digamma, polygamma(1), polygamma(2), ...
Tensor lgamma(const Tensor& x);                     // log |gamma(x)|; of an integer n > 0: log (n - 1)!
Tensor digamma(const Tensor& x);                    // the derivative of lgamma
Tensor polygamma(std::int64_t n, const Tensor& x);  // the n-th derivative of digamma, n >= 0

}  // namespace mantissa
