// Sizes of windows: a number for each dimension that a convolution or a pool moves in. One number stands for all of
// them, 3 or {3, 5} for a kernel of images, {depth, height, width} for volumes; what comes first in x comes first here.
#pragma once

#include <array>
#include <concepts>

namespace mantissa {

// As libtorch's ExpandingArray. A std::array of its own would take `.padding = 1` as {1, 0}.
template <int n> struct PerDim : std::array<int, n> {
  constexpr PerDim(int all) { this->fill(all); }
  constexpr PerDim(const std::array<int, n>& each) : std::array<int, n>(each) {}
  template <std::convertible_to<int>... I> requires(sizeof...(I) == n && n > 1)
  constexpr PerDim(I... each) : std::array<int, n>{static_cast<int>(each)...} {}
};

}  // namespace mantissa
