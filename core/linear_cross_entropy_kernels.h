// Kernels of linear_cross_entropy besides its products: core/cpu/linear_cross_entropy.cpp,
// cuda/linear_cross_entropy.cu.
#pragma once

#include "core/kernel.h"
#include "core/ops.h"

namespace mantissa {

// factors [4]: what the labels weigh together (total), what all classes do, unit and rest. `narrow`: gradients of
// logits are held in f16. Targets and weights of classes lie dense, these in the compute dtype.
MANTISSA_KERNEL(linear_cross_entropy_factors, const View& factors, const View& target, const View& weight,
                std::int64_t classes, bool narrow, const CrossEntropyOptions& options)
// The losses of rows of logits [n, C]; with `gradient`, the logits are overwritten by their gradients times unit.
MANTISSA_KERNEL(linear_cross_entropy_rows, const View& losses, const View& logits, const View& target,
                const View& weight, const View& factors, bool gradient, const CrossEntropyOptions& options)
MANTISSA_KERNEL(linear_cross_entropy_loss, const View& loss, const View& losses, const View& factors,
                Reduction reduction)

}  // namespace mantissa
