// Gradients of views that are slices of a tensor: slice, and those built on it: narrow, split, chunk, unbind, select.
// Instead of summing one zero-padded tensor of the input's size per slice, the engine (autograd/backward.cpp) copies
// each slice's gradient to its place in a single gradient of the input. Adjacent slices need no fill and no addition,
// so packed query, key and value cost one pass, as with PyTorch's split; and none if a rule has written them into
// memory from `gradients_in_place`, because the engine recognises that they are slices of one tensor.
#pragma once

#include <span>

#include "core/tensor.h"

namespace mantissa::autograd {

// `count` indices of `dim`, starting at `begin`, with stride `step`.
struct Part {
  Dims sizes;  // of the tensor that it is a slice of
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

// Whether g is at `part`'s position in a contiguous tensor that is all of g's storage; and that tensor.
bool lies_in_place(const Tensor& g, const Part& part);
Tensor whole_around(const Tensor& g, const Part& part);

// Memory for gradients of `x`, if these are views of one tensor that together cover it, each with one dense run per
// row, such as query, key and value of a packed projection. The gradients are views of one new tensor in the same
// positions, with the same strides. At most three, written to g; false for any other x.
bool gradients_in_place(std::span<const Tensor* const> x, std::span<Tensor> g);

}  // namespace mantissa::autograd
