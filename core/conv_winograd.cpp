// Convolutions by core/winograd.h, which reads channels-last images.
#include "core/conv_algorithms.h"
#include "core/kernel.h"
#include "core/winograd.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace conv {
namespace {

// `v` if its channels are adjacent and it has this dtype, else memory for such a copy.
View channels_adjacent(const View& v, Dtype dtype, Tensor& keep) {
  if (v.strides[1] == 1 && v.dtype == dtype) return v;
  keep = Tensor::allocate(v.sizes, dtype, cpu, Layout::channels_last);
  return keep.view();
}
View read(const View& v, Dtype dtype, Tensor& keep) {
  const View r = channels_adjacent(v, dtype, keep);
  if (keep.defined()) kernels::copy(cpu, r, v);
  return r;
}

}  // namespace

void run_winograd(const Call& c) {
  Tensor a_copy, b_copy, y_copy;
  const bool to_weight = c.pass == ConvPass::weight_gradient;
  const Dtype images = to_weight ? c.a.dtype : c.y.dtype;
  const View a = read(c.a, images, a_copy), b = to_weight ? read(c.b, c.b.dtype, b_copy) : c.b,
             y = to_weight ? c.y : channels_adjacent(c.y, images, y_copy);
  kernels::winograd(cpu, c.pass, c.shape, y, a, b, c.bias);
  if (y_copy.defined()) kernels::copy(cpu, c.y, y);
}

}  // namespace conv
}  // namespace mantissa
