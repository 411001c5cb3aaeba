// The gradients of batch_norm where somebody else has the statistics: nn/sync_batch_norm.cpp.
#pragma once

#include <array>

#include "core/tensor.h"

namespace mantissa {

// Of y = batch_norm(x, weight, bias) with gradient g, mean and inv_std [channels] given and held constant: the
// gradients of x, weight and bias, in one pass over g and x for the last two. weight may be absent. Not recorded.
std::array<Tensor, 3> batch_norm_gradients(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                           const Tensor& inv_std);

}  // namespace mantissa
