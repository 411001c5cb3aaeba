// fmt::print("{}", x) for tensors, sizes, dtypes and devices, with the text of to_string; fmt's width and alignment
// apply. Not in <mantissa/mantissa.h>, since only programs that use fmt need its headers.
#pragma once

#include <fmt/format.h>

#include <concepts>

#include "core/stream.h"
#include "core/tensor.h"

namespace mantissa::detail {

template <class T> struct Formatter : fmt::formatter<fmt::string_view> {
  template <class Context> auto format(const T& value, Context& context) const {
    return fmt::formatter<fmt::string_view>::format(to_string(value), context);
  }
};

}  // namespace mantissa::detail

// Parameters and buffers of modules, too.
template <std::derived_from<mantissa::Tensor> T> struct fmt::formatter<T> : mantissa::detail::Formatter<T> {};
template <> struct fmt::formatter<mantissa::Dims> : mantissa::detail::Formatter<mantissa::Dims> {};
template <> struct fmt::formatter<mantissa::Dtype> : mantissa::detail::Formatter<mantissa::Dtype> {};
template <> struct fmt::formatter<mantissa::Device> : mantissa::detail::Formatter<mantissa::Device> {};
