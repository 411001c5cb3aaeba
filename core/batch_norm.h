// Arguments of batch norm's kernels on every device: core/cpu/batch_norm*.cpp, cuda/batch_norm*.cu. x is [N, C, ...];
// weight, bias and the statistics are [C], and may be absent. With `relu` it is y = max(0, normalised + z).
#pragma once

#include "core/tensor.h"

namespace mantissa {

struct BatchNormForward {
  const View &y, &mean, &inv_std, &x, &weight, &bias;
  const View& z;  // x's sizes and dtype, added before the activation; may be absent
  const View &running_mean, &running_var;
  const View& batches;  // i64 [], 1 is added to it in training; may be absent
  bool training, relu;
  double momentum, eps;
};
struct BatchNormGradient {
  const View &dx, &dweight, &dbias;
  const View& dz;  // absent if there was no z
  const View &g, &x, &weight, &bias, &mean, &inv_std;
  const View& y;  // the result, given if there was a z; without it the mask of relu is recomputed from x
  bool training, relu;
};

// x has one element per channel, or is channels-last: for kernels in which adjacent elements are channels.
inline bool channels_are_innermost(const View& x) {
  std::int64_t inner = 1;
  for (int d = 2; d < x.dim(); ++d) inner *= x.sizes[d];
  return inner == 1 || x.layout() == Layout::channels_last;
}

}  // namespace mantissa
