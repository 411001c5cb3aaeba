// Distinct slices of a tensor; of its elements: unique and unique_consecutive of core/ops.h.
#pragma once

#include "core/ops.h"

namespace mantissa {

// The distinct slices of dim, in the order of their elements, first element first, and how often each occurs; `inverse`
// [size of dim] says which of them each slice is. Slices with a NaN are distinct. The order is found on the host.
UniqueResult unique(const Tensor& x, int dim);
UniqueResult unique_consecutive(const Tensor& x, int dim);  // of runs of equal slices

}  // namespace mantissa
