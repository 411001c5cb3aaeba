// Padding options of convolution layers.
#pragma once

#include <concepts>
#include <string_view>

#include "core/error.h"
#include "core/per_dim.h"

namespace mantissa::nn {

// Sizes, or "same" (output as large as x; stride 1), or "valid" (none).
template <int n> struct Padding {
  Padding(int all) : sizes(all) {}
  Padding(const PerDim<n>& each) : sizes(each) {}
  Padding(const std::array<int, n>& each) : sizes(each) {}
  template <std::convertible_to<int>... I> requires(sizeof...(I) == n && n > 1)
  Padding(I... each) : sizes(each...) {}
  Padding(const char* name) : sizes(0), same(std::string_view(name) == "same") {
    check(same || std::string_view(name) == "valid",
          "padding must be numbers, \"same\" or \"valid\", got \"", name, "\"");
  }
  PerDim<n> sizes;
  bool same = false;
};

}  // namespace mantissa::nn
