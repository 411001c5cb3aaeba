// Helpers shared by the image transforms. Internal.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/tensor.h"

namespace mantissa::data {

// For the checks of images: whether they are contiguous. That they lie on a GPU is an error of its own.
inline bool is_plain(const Tensor& images, const char* who) {
  check(images.device().is_cpu(), who, ": computes on the CPU, got ", images, "; use to(cpu)");
  return images.is_contiguous();
}

inline void check_images(const Tensor& images, const char* who) {
  check(images.defined() && images.dim() == 4 && (images.dtype() == u8 || images.dtype() == f32) &&
            is_plain(images, who),
        who, ": expected contiguous u8 or f32 images [B, C, H, W], got ", images);
}
// The same, and that the batch is not empty.
inline void check_some_images(const Tensor& images, const char* who) {
  check_images(images, who);
  check(images.numel() > 0, who, ": there are no pixels in ", images);
}

// Calls f with a typed pointer to the elements of `images`, u8 or f32.
template <class F> void with_elements(const Tensor& images, F f) {
  if (images.dtype() == u8) f(images.data<std::uint8_t>());
  else f(images.data<float>());
}

// Converts a value to a pixel: u8 is clamped to [0, 255] and truncated, NaN becomes 0.
template <class T> T pixel_from(float v) {
  if constexpr (std::is_same_v<T, float>) {
    return v;
  } else {
    const float least = v > 0 ? v : 0;  // written so that the compiler vectorises it
    return static_cast<T>(static_cast<int>(least < 255 ? least : 255));
  }
}

}  // namespace mantissa::data
