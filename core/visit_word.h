// For kernels that only move elements: they are compiled per element size, not per dtype.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace mantissa {

// Calls f.template operator()<Word>() with the unsigned integer type of the size of `t`.
template <class F> decltype(auto) visit_word(Dtype t, F&& f) {
  switch (size_of(t)) {
    case 8: return f.template operator()<std::uint64_t>();
    case 4: return f.template operator()<std::uint32_t>();
    case 2: return f.template operator()<std::uint16_t>();
    default: return f.template operator()<std::uint8_t>();
  }
}

}  // namespace mantissa
