// DropBlock (Ghiasi et al., 2018), as in torchvision.ops: dropout of square blocks of a feature map, because single
// pixels are redundant with their neighbours. In training, zeroes blocks so that a fraction of about p is dropped, and
// scales the rest up to keep the mean; in evaluation mode it is the identity.
//   nn::DropBlock2d drop{.p = 0.1, .block_size = 7};
#pragma once

#include <cstdint>

#include "core/ops.h"
#include "nn/fields.h"

namespace mantissa::nn {

// x [N, C, H, W] or [N, C, D, H, W]. block_size, clamped to x's size, must be odd.
Tensor drop_block2d(const Tensor& x, double p, std::int64_t block_size, double eps = 1e-6, bool training = true);
Tensor drop_block3d(const Tensor& x, double p, std::int64_t block_size, double eps = 1e-6, bool training = true);

struct DropBlock2d {
  double p = 0.1;
  std::int64_t block_size = 7;
  double eps = 1e-6;
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const { return drop_block2d(x, p, block_size, eps, mode.training); }
};
struct DropBlock3d {
  double p = 0.1;
  std::int64_t block_size = 7;
  double eps = 1e-6;
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const { return drop_block3d(x, p, block_size, eps, mode.training); }
};

}  // namespace mantissa::nn
