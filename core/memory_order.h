// For code that treats tensors as flat arrays, such as the multi-tensor kernels: whether their elements fill memory
// without gaps, and in which order. A parameter, its gradient, its low-precision shadow and its optimizer's state have
// the same order, so that element k of one belongs to element k of the others.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// Whether the elements fill memory in the order of this layout. With a single channel or pixel both layouts apply, and
// for other ranks than those of images and volumes both are contiguous.
inline bool lies_in(const View& v, Layout layout) {
  const bool channels_last = layout == Layout::channels_last && (v.dim() == 4 || v.dim() == 5);
  return channels_last ? is_channels_last(v.sizes, v.strides) : v.is_contiguous();
}
inline bool lies_in(const Tensor& t, Layout layout) {
  return layout == Layout::contiguous ? t.is_contiguous() : lies_in(t.view(), layout);
}
inline bool is_dense(const View& v) { return lies_in(v, v.layout()); }
inline bool is_dense(const Tensor& t) { return lies_in(t, t.layout()); }

// t itself if it lies in this layout, else a copy that does. Not recorded for autograd.
inline Tensor dense(const Tensor& t, Layout layout) {
  return lies_in(t, layout) ? t : Tensor::allocate(t.sizes(), t.dtype(), t.device(), layout).copy_(t);
}

// A channels-last tensor as the contiguous [N, H, W, C] or [N, D, H, W, C] that it is in memory, a view, for code that
// wants contiguous tensors of whatever sizes; any other tensor itself. in_order_of_dims is its inverse.
inline Tensor as_it_lies(const Tensor& t) {
  if (t.layout() == Layout::contiguous) return t;
  return t.dim() == 4 ? t.permute({0, 2, 3, 1}) : t.permute({0, 2, 3, 4, 1});
}
inline Tensor in_order_of_dims(const Tensor& t, Layout layout) {
  if (layout == Layout::contiguous) return t;
  return t.dim() == 4 ? t.permute({0, 3, 1, 2}) : t.permute({0, 4, 1, 2, 3});
}

}  // namespace mantissa
