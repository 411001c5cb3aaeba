// Stream output: std::cout << x.sizes() << x.dtype() << x.device() prints [2, 3], f32, cuda:0, as in error messages
// (core/error.h); to_string(x.sizes()) gives the same as a string. For tensors see core/tensor.h.
#pragma once

#include <concepts>
#include <ostream>
#include <string>

#include "core/error.h"

namespace mantissa {

template <class T>
concept Description = std::same_as<T, Dims> || std::same_as<T, Dtype> || std::same_as<T, Device>;
template <Description T> std::string to_string(const T& value) { return concat(value); }
template <Description T> std::ostream& operator<<(std::ostream& out, const T& value) { return out << concat(value); }

}  // namespace mantissa
