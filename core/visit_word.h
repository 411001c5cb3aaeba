// For kernels that move elements and compute nothing: what they move is words of the elements' size.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace mantissa {

// Calls f.template operator()<Word>() with the unsigned integer of the size of `t`.
template <class F> decltype(auto) visit_word(Dtype t, F&& f) {
  switch (size_of(t)) {
    case 8: return f.template operator()<std::uint64_t>();
    case 4: return f.template operator()<std::uint32_t>();
    case 2: return f.template operator()<std::uint16_t>();
    default: return f.template operator()<std::uint8_t>();
  }
}

}  // namespace mantissa
