// dropout with random numbers reserved in advance: for operators that recompute the mask instead of storing it.
#pragma once

#include "core/random.h"

namespace mantissa {

RngState reserve_dropout(std::int64_t elements);  // reserves the random numbers of one dropout in the default generator
Tensor dropout_at(const Tensor& x, double p, RngState at);

}  // namespace mantissa
