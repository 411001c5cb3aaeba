// A tensor over memory owned by the caller, without a copy, as torch::from_blob: an image of another library, a camera
// frame, a mapped file. Writes to one are visible in the other.
//
//   Tensor frame = from_blob(image.data, {image.rows, image.cols, 3}, {.dtype = u8});     // image must outlive it
//   Tensor kept = from_blob(p, {n}, [image](void*) {}, {.dtype = u8});                    // keeps a copy of the handle
#pragma once

#include <concepts>
#include <utility>

#include "core/tensor.h"

namespace mantissa {

namespace detail {
void check_memory(const void* data, const Dims& sizes, const TensorOptions&);
Tensor over_memory(void* data, const Dims& sizes, TensorOptions, void (*release)(void*), void* owner);
}

// Row-major elements of o.dtype at `data`, in memory of o.device, which must outlive the tensor and its views. Error if
// `data` is null or not aligned to an element.
inline Tensor from_blob(void* data, const Dims& sizes, TensorOptions o = {}) {
  detail::check_memory(data, sizes, o);
  return detail::over_memory(data, sizes, o, [](void*) {}, nullptr);
}
// release(data) is called when the last tensor over the memory is destroyed, on whichever thread. Not called after an
// error.
template <std::invocable<void*> F>
Tensor from_blob(void* data, const Dims& sizes, F release, TensorOptions o = {}) {
  struct Owner {
    F release;
    void* data;
  };
  detail::check_memory(data, sizes, o);
  auto* owner = new Owner{std::move(release), data};
  const auto end = [](void* p) {
    auto* own = static_cast<Owner*>(p);
    own->release(own->data);
    delete own;
  };
  return detail::over_memory(data, sizes, o, end, owner);
}

}  // namespace mantissa
