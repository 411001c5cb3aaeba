// Gradients of views that are parts of a tensor: slice, and narrow, split, chunk, unbind, select made of it. Such a
// gradient is not written into zeros of the input's size, one tensor for each part, which are then added up: the engine
// (autograd/backward.cpp) puts it into the one tensor of its input's gradient. Parts that lie side by side are copied
// there and nothing is filled or added, so packed query, key and value cost one pass, as by PyTorch's split.
#pragma once

#include "core/tensor.h"

namespace mantissa::autograd {

// `count` indices of `dim` from `begin` on, a step apart.
struct Part {
  Dims sizes;  // of the tensor that it is a part of
  int dim = 0;
  std::int64_t begin = 0, count = 0, step = 1;
};

// A view of x [sizes].
inline Tensor part_of(const Tensor& x, const Part& part) {
  Dims sizes = x.sizes(), strides = x.strides();
  sizes[part.dim] = part.count;
  if (part.count > 1) strides[part.dim] *= part.step;
  return x.as_strided(sizes, strides, part.count > 0 ? part.begin * x.strides()[part.dim] : 0);
}

}  // namespace mantissa::autograd
