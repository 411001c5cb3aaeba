// Pooling of channels-last images: x, y, their gradients, indices and taps are all channels-last.
#pragma once

#include "core/cpu/rows.h"
#include "core/pool.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// Another operand of these kernels: itself, or a channels-last copy owned by `keep`.
inline View moved(const View& v, Dtype dtype, Tensor& keep) {
  if (v.dtype == dtype && is_channels_last(v.sizes, v.strides)) return v;
  keep = Tensor::allocate(v.sizes, dtype, cpu, Layout::channels_last);
  copy(keep.view(), v);
  return keep.view();
}

void max_pool2d_channels(const PoolShape& shape, const View& y, const View& index, const View& x);
void max_pool2d_channels_backward(const View& dx, const View& g, const View& index);
void avg_pool2d_channels(const PoolShape& shape, const View& y, const View& x);
void avg_pool2d_channels_backward(const PoolShape& shape, const View& dx, const View& g);

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
