// Linear maps along the rows and the columns of planes: what interpolation, and borders made of a tensor's own
// elements, are on the CPU, forward and backward. (A GPU has them as index_select, products and sums.)
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernel.h"

namespace mantissa {

// Result i is the sum of weight[k] * x[at[k]] over k in [start[i], start[i + 1]). With no results it stands for a
// dimension that stays as it is.
struct Taps {
  std::int64_t in = 0;  // elements of x
  std::vector<std::int64_t> start{0}, at;
  std::vector<double> weight;

  std::int64_t out() const { return static_cast<std::int64_t>(start.size()) - 1; }
  void add(std::int64_t from, double w) { at.push_back(from), weight.push_back(w); }  // to the result at the end
  void end_result() { start.push_back(static_cast<std::int64_t>(at.size())); }
};

// y and x are [N, C, H, W] of one dtype, y dense in one of the two layouts; only maps that choose elements (one tap of
// weight 1 for each result) take other dtypes than floating ones. Halves are summed in f32 and rounded once.
MANTISSA_KERNEL(resample, const View& y, const View& x, const Taps& rows, const Taps& columns)

}  // namespace mantissa
