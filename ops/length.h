// A check of numbers that are added to sizes.
#pragma once

#include <cstdint>

#include "core/error.h"

namespace mantissa {

// No dimension has 2^40 elements: a larger number is a mistake, and sums and products of a few smaller ones are far
// from overflow.
inline void check_length(const char* name, const char* what, std::int64_t n) {
  constexpr std::int64_t longest = std::int64_t{1} << 40;
  check(n >= -longest && n <= longest, name, ": ", what, " ", n, " is longer than any tensor");
}

}  // namespace mantissa
