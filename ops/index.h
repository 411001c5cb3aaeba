// Shape checks of index tensors along a dimension. The kernels that read the indices check that they are in range.
#pragma once

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

}  // namespace mantissa
