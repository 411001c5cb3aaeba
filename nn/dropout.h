// Dropout: in training, zeroes each element with probability p and scales the others by 1 / (1 - p); in evaluation mode
// it is the identity. Dropout1d, 2d and 3d zero whole channels. AlphaDropout preserves mean and variance, for selu;
// FeatureAlphaDropout does so by channel. nn::Dropout drop{.p = 0.2};
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
struct Dropout1d {  // x [N, C, L] or [C, L]
  double p = 0.5;
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const { return dropout1d(x, p, mode.training); }
};
struct Dropout2d {  // x [N, C, H, W] or [C, H, W]
  double p = 0.5;
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const { return dropout2d(x, p, mode.training); }
};
struct Dropout3d {  // x [N, C, D, H, W] or [C, D, H, W]
  double p = 0.5;
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const { return dropout3d(x, p, mode.training); }
};
struct AlphaDropout {
  double p = 0.5;
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const { return alpha_dropout(x, p, mode.training); }
};
struct FeatureAlphaDropout {  // x [N, C, ...]
  double p = 0.5;
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const { return feature_alpha_dropout(x, p, mode.training); }
};

}  // namespace mantissa::nn
