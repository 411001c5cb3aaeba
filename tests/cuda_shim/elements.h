// Elements of tensors as f64, for the shim's libraries.
#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"

namespace cuda_shim {

template <class T> double load_as(const void* p, std::int64_t i) {
  return static_cast<double>(static_cast<mantissa::Compute<T>>(static_cast<const T*>(p)[i]));
}
template <class T> void store_as(void* p, std::int64_t i, double v) {
  static_cast<T*>(p)[i] = static_cast<T>(static_cast<mantissa::Compute<T>>(v));
}

// To 10 bits of mantissa, as Tensor Cores take f32; halves away from zero.
inline double rounded_to_tf32(double v) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v));
  return static_cast<double>(std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu));
}

}  // namespace cuda_shim
