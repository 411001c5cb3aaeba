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

}  // namespace mantissa
