// Indexing that mixes tensors with numbers and slices, as Python's x[...] does; what has no tensor in it is
// x[{all, slice(1), -1}] (core/tensor.h), a view.
//
//   index(x, {all, rows})                     x[:, rows]
//   index(x, {i, slice(1, 5), j})             x[i, 1:5, j]
//   index(x, {ellipsis, mask})                x[..., mask]
//   x = index_put(x, {all, rows}, values);    x[:, rows] = values, recorded
//   x = index_put(x, {i, all, j}, v, true);   x.index_put_((i, slice(None), j), v, accumulate=True)
//
// PyTorch's rules: a number takes its dimension away first. Tensors of i64 broadcast against each other, and may be
// negative to count from the end; a mask of bool stands for as many dimensions as it has. What they pick is where the
// first of them was, when they are neighbours, and in front when they are not.
#pragma once

#include <initializer_list>

#include "core/tensor.h"

namespace mantissa {

// One entry: a number, `all`, slice(...), newaxis, ellipsis, or a tensor.
class AnyIndex {
 public:
  AnyIndex(const Index& i) : plain_(i) {}
  AnyIndex(int i) : plain_(i) {}
  AnyIndex(std::int64_t i) : plain_(i) {}
  AnyIndex(Tensor (*whole)(const Tensor&, const Dims&, bool)) : plain_(whole) {}  // `all`
  AnyIndex(const Tensor& t) : plain_(0), tensor_(t) {}

  bool is_tensor() const { return tensor_.defined(); }
  const Tensor& tensor() const { return tensor_; }
  const Index& plain() const { return plain_; }

 private:
  Index plain_;
  Tensor tensor_;
};

// A copy with a gradient; without a tensor among the entries a view.
Tensor index(const Tensor& x, std::initializer_list<AnyIndex> entries);
// x with `values`, which broadcast, at those places; accumulate: added to what is there. Of places that appear more
// than once without it, any of the values may stay. Gradients reach x and values.
Tensor index_put(const Tensor& x, std::initializer_list<AnyIndex> entries, const Tensor& values,
                 bool accumulate = false);
Tensor index_put(const Tensor& x, std::initializer_list<AnyIndex> entries, double value);

}  // namespace mantissa
