// Shape checks of index tensors along a dimension. The kernels that read the indices check that they are in range. And
// the gradient of a table of rows.
#pragma once

#include "autograd/rule.h"
#include "core/tensor.h"

namespace mantissa {

// index must be i64, of x's rank, and no larger than x in any dimension but `dim`. `what` is x's name in the message.
inline void check_index_shape(const Tensor& x, int dim, const Tensor& index, const char* what) {
  check(index.dtype() == i64, "the index must be i64, got ", index.dtype());
  check(index.dim() == x.dim(), "the index has ", index.dim(), " dimensions, ", what, " ", x.dim(),
        index.dim() + 1 == x.dim() ? "; unsqueeze it" : "");
  for (int d = 0; d < x.dim(); ++d) {
    check(d == dim || index.sizes()[d] <= x.sizes()[d], "the index has size ", index.sizes()[d], " in dimension ", d,
          ", ", what, " only ", x.sizes()[d]);
  }
}
// The same for scatter, which also needs a source element for every index.
inline void check_scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  check_index_shape(x, dim, index, "x");
  check(source.sizes() == index.sizes(), "the source has sizes ", source.sizes(), ", the index ", index.sizes());
  check(source.dtype() == x.dtype(), "the source is ", source.dtype(), " and x ", x.dtype(), "; cast one with to()");
}

// Sums of the rows of g [*, columns] by index: the gradient of a table with `rows` rows, written straight to where it
// goes if it may be. Row `padding` gets none.
Tensor table_gradient(const Destination& to, std::int64_t rows, const Tensor& g, const Tensor& indices,
                      std::int64_t padding = -1);
// Makes v contiguous. The result owns the memory if that took a copy.
Tensor make_dense(View& v);
// One row of a matrix.
inline View row_of(View y, std::int64_t row) {
  y.data = y.as<char>() + row * y.strides[0] * static_cast<std::int64_t>(size_of(y.dtype));
  y.sizes = {y.sizes[1]};
  y.strides = {y.strides[1]};
  return y;
}
// The row of padding_idx, which may be negative; -1 for none.
inline std::int64_t padding_row(std::optional<std::int64_t> padding_idx, std::int64_t rows) {
  check(!padding_idx || (*padding_idx >= -rows && *padding_idx < rows), "padding_idx ", padding_idx.value_or(0),
        " is out of range for ", rows, " rows");
  return !padding_idx ? -1 : *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

}  // namespace mantissa
