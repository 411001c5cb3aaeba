// How a sequence of elements is divided among the ranks of a group.
#pragma once

#include <cstdint>

namespace mantissa::distributed {

struct Segment {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
// The i-th of n, which differ by at most one element.
inline Segment segment_of(std::int64_t elements, int i, int n) {
  const auto at = [&](int k) {  // avoids overflow of the product
    return elements / n * k + elements % n * k / n;
  };
  return {at(i), at(i + 1)};
}

}  // namespace mantissa::distributed
