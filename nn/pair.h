// A height and a width: nn layers take 3 or {3, 5} where one is wanted.
#pragma once

#include <array>

namespace mantissa::nn {

struct Pair {
  Pair(int both) : height(both), width(both) {}
  Pair(int height, int width) : height(height), width(width) {}
  operator std::array<int, 2>() const { return {height, width}; }
  int height, width;
};

}  // namespace mantissa::nn
