// Distinct slices of a tensor. For distinct elements: unique and unique_consecutive of core/ops.h.
#pragma once

#include "core/ops.h"

namespace mantissa {

// The distinct slices along dim in lexicographic order, and how often each occurs; `inverse` [size of dim] maps each
// slice to its index among them. Slices containing NaN are distinct. Sorted on the host.
UniqueResult unique(const Tensor& x, int dim);
UniqueResult unique_consecutive(const Tensor& x, int dim);  // one per run of equal slices

}  // namespace mantissa
