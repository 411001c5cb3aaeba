// Stochastic depth (Huang et al., 2016), as in torchvision.ops; DropPath in timm. In training, zeroes the output of a
// residual branch with probability p, per example ("row") or for the whole batch ("batch"), and scales it by 1 / (1 -
// p) otherwise; in evaluation mode it is the identity.
//   nn::StochasticDepth drop{.p = 0.1};      x = x + drop(branch(x));
#pragma once

#include <string_view>

#include "core/ops.h"
#include "nn/fields.h"

namespace mantissa::nn {

// x [N, ...]
inline Tensor stochastic_depth(const Tensor& x, double p, std::string_view mode = "row", bool training = true) {
  check(p >= 0 && p <= 1, "stochastic_depth: p must lie in [0, 1], got ", p);
  check(mode == "row" || mode == "batch", "stochastic_depth: mode must be \"row\" or \"batch\", got \"", mode, "\"");
  check(x.dim() >= 1, "stochastic_depth: x must be [N, ...], got ", x);
  if (!training || p == 0) return x;
  Dims sizes = Dims::filled(x.dim(), 1);
  if (mode == "row") sizes[0] = x.size(0);
  const Tensor stays = bernoulli(full(sizes, 1 - p, {.dtype = x.dtype(), .device = x.device()}));
  return x * (p < 1 ? stays / (1 - p) : stays);
}

struct StochasticDepth {
  double p = 0.5;
  std::string_view mode = "row";
  Mode training = {};
  MANTISSA_FIELDS(training)
  Tensor operator()(const Tensor& x) const { return stochastic_depth(x, p, mode, training.training); }
};

}  // namespace mantissa::nn
