// Gradients of views that are parts of a tensor: slice, and narrow, split, chunk, unbind, select made of it. Such a
// gradient is not written into zeros of the input's size, one tensor for each part, which are then added up: the engine
// (autograd/backward.cpp) puts it into the one tensor of its input's gradient. Parts that lie side by side are copied
// there and nothing is filled or added, so packed query, key and value cost one pass, as by PyTorch's split. None,
// where a rule has written them into their places already: it takes memory by `gradients_in_place`, and the engine sees
// that what comes is part of one tensor.
#pragma once

#include <span>

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
  return x.raw_view(sizes, strides, part.count > 0 ? part.begin * x.strides()[part.dim] : 0);
}

// Whether g lies where `part` does in a contiguous tensor that is all of g's storage; and that tensor.
bool lies_in_place(const Tensor& g, const Part& part);
Tensor whole_around(const Tensor& g, const Part& part);

// Memory for gradients of `x`, which are views of one tensor and make up all of it: as query, key and value of a packed
// projection, each has a dense run in every row of that tensor. They lie in one new tensor as those in theirs, with the
// same strides. At most three, written to g; false for any other x.
bool gradients_in_place(std::span<const Tensor* const> x, std::span<Tensor> g);

}  // namespace mantissa::autograd
