// Sizes of windows: nn layers take 3 or {3, 5} where a height and a width are wanted, 3 or {2, 3, 5} where
// a depth comes before them.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>

#include "core/error.h"

namespace mantissa::nn {

struct Pair {
  Pair(int both) : height(both), width(both) {}
  Pair(int height, int width) : height(height), width(width) {}
  operator std::array<int, 2>() const { return {height, width}; }
  int height, width;
};
struct Triple {
  Triple(int all) : depth(all), height(all), width(all) {}
  Triple(int depth, int height, int width) : depth(depth), height(height), width(width) {}
  operator std::array<int, 3>() const { return {depth, height, width}; }
  int depth, height, width;
};

namespace detail {
// What a layer over n dimensions takes for a kernel, stride, ...
template <int n> struct SizesOf;
template <> struct SizesOf<1> {
  SizesOf(int size) : size(size) {}
  operator std::array<int, 1>() const { return {size}; }
  int size;
};
template <> struct SizesOf<2> : Pair { using Pair::Pair; SizesOf(const Pair& p) : Pair(p) {} };
template <> struct SizesOf<3> : Triple { using Triple::Triple; SizesOf(const Triple& t) : Triple(t) {} };

// A convolution's padding: numbers as above, or "same" (the result is as large as x; stride 1) or "valid" (none).
template <int n> struct Padding {
  Padding(int all) { sizes.fill(all); }
  template <class... I> requires(sizeof...(I) == n && n > 1 && (std::is_convertible_v<I, int> && ...))
  Padding(I... each) : sizes{static_cast<int>(each)...} {}
  template <class P>
    requires(std::is_convertible_v<const P&, std::array<int, n>> && !std::is_convertible_v<const P&, int>)
  Padding(const P& each) : sizes(each) {}
  Padding(const char* name) : same(std::string_view(name) == "same") {
    check(same || std::string_view(name) == "valid",
          "padding must be numbers, \"same\" or \"valid\", got \"", name, "\"");
  }
  std::array<int, n> sizes{};
  bool same = false;
};
}  // namespace detail

}  // namespace mantissa::nn
