// What modules need of batch_norm beyond core/ops.h: a count of batches, and gradients when the statistics were
// computed elsewhere (nn/sync_batch_norm.cpp).
#pragma once

#include <array>

#include "core/tensor.h"

namespace mantissa {

// batch_norm, or batch_norm_relu, which in training also adds 1 to num_batches_tracked, i64 [] on x's device, in the
// same kernel; it may be undefined.
Tensor counted_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                          const Tensor& running_var, const Tensor& num_batches_tracked, bool training, double momentum,
                          double eps, bool relu = false, const Tensor& z = {});

// Gradients of x, weight and bias for y = batch_norm(x, weight, bias) with output gradient g; mean and inv_std
// [channels] are given and treated as constants. Those of weight and bias take one pass over g and x. weight may be
// undefined. Not recorded for autograd.
std::array<Tensor, 3> batch_norm_gradients(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                           const Tensor& inv_std);

}  // namespace mantissa
