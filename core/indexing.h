// Indexing that mixes tensors with numbers and slices, as Python's x[...] does; what has no tensor in it is
// x[{all, slice(1), -1}] (core/tensor.h), a view.
//
//   index(x, {all, rows})                     x[:, rows]
//   index(x, {i, slice(1, 5), j})             x[i, 1:5, j]
//   index(x, {ellipsis, mask})                x[..., mask]
//   x = index_put(x, {all, rows}, values);    x[:, rows] = values, recorded
//   x = index_put(x, {i, all, j}, v, true);   x.index_put((i, slice(None), j), v, accumulate=True)
//   index_put_(x, {all, rows}, values);       x[:, rows] = values, written into x and not recorded
//   index_put_(x, {x < 0}, 0);                x[x < 0] = 0
//   auto at = where(x < 0);                   torch.where(x < 0), for index(y, {at[0], at[1]})
//
// PyTorch's rules: a number takes its dimension away first, also as a 0-d tensor (read to the host, unless tensors are
// neighbours). Tensors of i64 broadcast, negative ones count from the end; a mask stands for as many dimensions as it
// has. What they pick is where the first of them was, when they are neighbours, and in front when they are not.
#pragma once

#include <initializer_list>
#include <vector>

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
Tensor index_put(const Tensor& x, std::initializer_list<AnyIndex> entries, double value, bool accumulate = false);
// The same into x itself, which on a CPU costs what is written and not what x holds. As all that is in place
// (core/tensor.h) it is not recorded: x must not need a gradient, but under NoGrad. Of places that appear more than
// once the last value stays. Values have x's dtype, and lie on its device.
void index_put_(const Tensor& x, std::initializer_list<AnyIndex> entries, const Tensor& values,
                bool accumulate = false);
void index_put_(const Tensor& x, std::initializer_list<AnyIndex> entries, double value, bool accumulate = false);

// Where the condition is not 0: one tensor of indices i64 [count] for each of its dimensions, in row-major order. Reads
// the condition to the host, as nonzero does.
std::vector<Tensor> where(const Tensor& condition);

}  // namespace mantissa
