// Separable linear maps along the rows and columns of planes, and the depth of volumes: interpolation, and padding with
// a tensor's own elements, forward and backward.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/kernel.h"

namespace mantissa {

// Result i is the sum of weight[k] * x[at[k]] over k in [start[i], start[i + 1]). Without results: the identity.
struct Taps {
  std::int64_t in = 0;  // elements of x
  std::vector<std::int64_t> start{0}, at;
  std::vector<double> weight;

  std::int64_t out() const { return static_cast<std::int64_t>(start.size()) - 1; }
  void add(std::int64_t from, double w) { at.push_back(from), weight.push_back(w); }  // to the last result
  void end_result() { start.push_back(static_cast<std::int64_t>(at.size())); }
  bool only_chooses() const;  // one tap of weight 1 for each result
};

// The map of one dimension, and its taps in a GPU's memory, if y is there.
struct LineMap {
  const Taps* taps = nullptr;    // null: the identity
  View at = {};                  // i64
  View start = {}, weight = {};  // i64, and the dtype that y is computed in; undefined if all maps select elements
};
using LineMaps = std::array<LineMap, 3>;  // of depth, rows and columns

// y and x are [N, C, H, W] of one dtype, on a GPU also [N, C, D, H, W]; y is dense in one of the two layouts.
// Non-floating dtypes only for maps that select elements. f16 and bf16 are summed in f32 and rounded once.
MANTISSA_KERNEL(resample, const View& y, const View& x, const LineMaps& maps)

}  // namespace mantissa
