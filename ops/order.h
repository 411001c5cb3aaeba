// Shared by the order statistics.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// Index (i64, size 1 along dim) of the element whose rank along dim is `place` in argsort's order; 0 is the smallest.
// With nan_wins, the index of the first NaN where there is one. x has at least one dimension.
Tensor argsort_place(const Tensor& x, int dim, std::int64_t place, bool nan_wins = false);

}  // namespace mantissa
