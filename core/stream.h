// std::cout << x.sizes() << x.dtype() << x.device(): [2, 3], f32, cuda:0, as they stand in errors (core/error.h).
// Tensors have their own, in core/tensor.h.
#pragma once

#include <concepts>
#include <ostream>

#include "core/error.h"

namespace mantissa {

template <class T>
  requires(std::same_as<T, Dims> || std::same_as<T, Dtype> || std::same_as<T, Device>)
std::ostream& operator<<(std::ostream& out, const T& value) {
  return out << concat(value);
}

}  // namespace mantissa
