// Gradients of views that are slices of a tensor: slice, and narrow, split, chunk, unbind, select made of it. Instead
// of summing one zero-padded tensor of the input's size per slice, the engine (autograd/backward.cpp) copies each
// slice's gradient into its place in a single gradient of the input. Adjacent slices need no fill and no addition, so
// packed query, key and value cost one pass, as with PyTorch's split; and none if a rule has written them into memory
// from `gradients_in_place`, because the engine recognises that they are slices of one tensor.
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
