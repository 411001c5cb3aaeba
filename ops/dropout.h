// dropout with random numbers that were reserved before: for operators that drop what they never store.
#pragma once

#include "core/random.h"

namespace mantissa {

RngState reserve_dropout(std::int64_t elements);  // what dropout takes from the default generator
Tensor dropout_at(const Tensor& x, double p, RngState at);

}  // namespace mantissa
