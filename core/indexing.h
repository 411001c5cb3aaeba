// Indexing that mixes tensors with numbers and slices, as Python's x[...] does: a copy. Without tensors it is a view
// (core/tensor.h).
//
//   x[{all, rows}], or index(x, {all, rows})  x[:, rows]
//   index(x, {i, slice(1, 5), j})             x[i, 1:5, j]
//   index(x, {ellipsis, mask})                x[..., mask]
//   x = index_put(x, {all, rows}, values);    x[:, rows] = values, recorded
//   x = index_put(x, {i, all, j}, v, true);   x.index_put((i, slice(None), j), v, accumulate=True)
//   index_put_(x, {all, rows}, values);       x[:, rows] = values, written into x and not recorded
//   index_put_(x, {x < 0}, 0);                x[x < 0] = 0
//   auto at = where(x < 0);                   torch.where(x < 0), for index(y, {at[0], at[1]})
//
// PyTorch's rules: a number first removes its dimension, also a 0-d tensor (read back to the host, unless the index
// tensors are adjacent). i64 tensors broadcast, negative ones count from the end; a mask indexes as many dimensions as
// it has. The indexed dimensions are placed where the first index tensor was if the index tensors are adjacent, else in
// front.
#pragma once

#include <initializer_list>
#include <vector>

#include "core/tensor.h"

namespace mantissa {

// A differentiable copy; a view if no entry is a tensor.
Tensor index(const Tensor& x, std::initializer_list<AnyIndex> entries);
// A copy of x with `values`, which broadcast, at those positions; accumulate: added to x's. For duplicate positions
// without accumulate, it is unspecified which value is kept. Differentiable in x and values.
Tensor index_put(const Tensor& x, std::initializer_list<AnyIndex> entries, const Tensor& values,
                 bool accumulate = false);
Tensor index_put(const Tensor& x, std::initializer_list<AnyIndex> entries, double value, bool accumulate = false);
// The same in place; on a CPU the cost depends on the number of elements written, not on the size of x. Like all
// in-place operators (core/tensor.h) it is not recorded: x must not require a gradient, except under NoGrad. For
// duplicate positions the last value is kept. Values have x's dtype and device.
void index_put_(const Tensor& x, std::initializer_list<AnyIndex> entries, const Tensor& values,
                bool accumulate = false);
void index_put_(const Tensor& x, std::initializer_list<AnyIndex> entries, double value, bool accumulate = false);

// Where the condition is nonzero: one i64 [count] tensor of indices for each of its dimensions, in row-major order.
// Reads the condition back to the host, like nonzero.
std::vector<Tensor> where(const Tensor& condition);

}  // namespace mantissa
