// Elements of tensors as f64, for the shim's libraries.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace cuda_shim {

template <class T> double load_as(const void* p, std::int64_t i) {
  return static_cast<double>(static_cast<mantissa::Compute<T>>(static_cast<const T*>(p)[i]));
}
template <class T> void store_as(void* p, std::int64_t i, double v) {
  static_cast<T*>(p)[i] = static_cast<T>(static_cast<mantissa::Compute<T>>(v));
}

}  // namespace cuda_shim
