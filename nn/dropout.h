// Dropout: in training, zeroes each element with probability p and scales the others by 1 / (1 - p);
// after nn::eval it passes x through. nn::Dropout drop{.p = 0.2};
#pragma once

#include "core/ops.h"
#include "nn/fields.h"

namespace mantissa::nn {

struct Dropout {
  double p = 0.5;
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const { return dropout(x, p, mode.training); }
};

}  // namespace mantissa::nn
