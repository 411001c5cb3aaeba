// What operators about order share.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// i64, of size 1 along dim: where that element stands which has `place` in the order of its line, argsort's, so that 0
// is the least. With nan_wins, in lines that have NaN, where the first of them stands. x has at least one dimension.
Tensor argsort_place(const Tensor& x, int dim, std::int64_t place, bool nan_wins = false);

}  // namespace mantissa
