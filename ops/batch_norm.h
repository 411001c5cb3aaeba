// Gradients of batch_norm when the statistics were computed elsewhere: nn/sync_batch_norm.cpp.
#pragma once

#include <array>

#include "core/tensor.h"

namespace mantissa {

// Gradients of x, weight and bias for y = batch_norm(x, weight, bias) with output gradient g; mean and inv_std
// [channels] are given and treated as constants. Those of weight and bias take one pass over g and x. weight may be
// undefined. Not recorded for autograd.
std::array<Tensor, 3> batch_norm_gradients(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                           const Tensor& inv_std);

}  // namespace mantissa
