#include "ops/parameter_gradient.h"

#include "autograd/place.h"
#include "core/gemm.h"
#include "core/kernel.h"
#include "core/ops.h"

namespace mantissa {

MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)

Tensor product_into(const Destination& to, const Tensor& a, const Tensor& b) {
  if (to.is_plain(a.dtype()) || a.dim() != 2 || b.dim() != 2) return matmul(a, b);
  autograd::Place place(to, {a.size(0), b.size(1)}, a.device());
  kernels::gemm(a.device(), place.view(), a.view(), b.view(), {}, {}, place.adds());
  return place.done();
}

Tensor sum_into(const Destination& to, const Tensor& g, int kept) {
  const int at = kept < 0 ? kept + g.dim() : kept;
  if (to.dtype == g.dtype()) {
    Dims others;
    for (int d = 0; d < g.dim(); ++d) if (d != at) others.push_back(d);
    return others.empty() ? g : sum(g, others);
  }
  autograd::Place place(to, {g.size(at)}, g.device(), false);
  View sums = place.view();
  sums.sizes = Dims::filled(g.dim(), 1);
  sums.sizes[at] = g.size(at);
  sums.strides = contiguous_strides(sums.sizes);
  kernels::reduce_sum(g.device(), sums, g.view(), 1.0);
  return place.done();
}

}  // namespace mantissa
