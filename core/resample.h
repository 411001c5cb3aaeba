// Separable linear maps along the rows and columns of planes: interpolation, and padding with a tensor's own elements,
// on the CPU, forward and backward. (A GPU composes them of index_select, products and sums.)
#pragma once

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
};

// y and x are [N, C, H, W] of one dtype, y dense in one of the two layouts; non-floating dtypes only for maps that
// select elements (one tap of weight 1 per result). f16 and bf16 are summed in f32 and rounded once.
MANTISSA_KERNEL(resample, const View& y, const View& x, const Taps& rows, const Taps& columns)

}  // namespace mantissa
