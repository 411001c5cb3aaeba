// Window sizes: one number per dimension that a convolution or pooling window moves in. A single number applies to all:
// 3 or {3, 5} for a kernel over images, {depth, height, width} for volumes, in the order of x's dimensions.
#pragma once

#include <array>
#include <concepts>

namespace mantissa {

// Like libtorch's ExpandingArray. A plain std::array would take `.padding = 1` as {1, 0}.
template <int n> struct PerDim : std::array<int, n> {
  constexpr PerDim(int all) { this->fill(all); }
  constexpr PerDim(const std::array<int, n>& each) : std::array<int, n>(each) {}
  template <std::convertible_to<int>... I> requires(sizeof...(I) == n && n > 1)
  constexpr PerDim(I... each) : std::array<int, n>{static_cast<int>(each)...} {}
};

}  // namespace mantissa
