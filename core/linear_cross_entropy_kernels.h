// Kernels of linear_cross_entropy besides its products: core/cpu/linear_cross_entropy.cpp,
// cuda/linear_cross_entropy.cu.
#pragma once

#include "core/kernel.h"
#include "core/ops.h"

namespace mantissa {

// factors [4]: total weight of the labels, total weight of the classes, unit and rest, where unit * rest = 1 / the
// reduction's divisor. `narrow`: gradients of logits are stored in f16, scaled by unit, a power of two. Targets and
// class weights are dense, class weights in the compute dtype.
MANTISSA_KERNEL(linear_cross_entropy_factors, const View& factors, const View& target, const View& weight,
                std::int64_t classes, bool narrow, const CrossEntropyOptions& options)
// The losses of rows of logits [n, C]; with `gradient`, the logits are overwritten by their gradients times unit.
MANTISSA_KERNEL(linear_cross_entropy_rows, const View& losses, const View& logits, const View& target,
                const View& weight, const View& factors, bool gradient, const CrossEntropyOptions& options)
MANTISSA_KERNEL(linear_cross_entropy_loss, const View& loss, const View& losses, const View& factors,
                Reduction reduction)

}  // namespace mantissa
