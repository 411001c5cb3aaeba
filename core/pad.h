// Shared by the CPU and CUDA versions of constant_pad.
#pragma once

#include "core/tensor.h"

namespace mantissa {

// The dimensions of y in its memory order, outermost first, without those of one element; dense ones that have no
// border are merged. y is dense in some dimension order, and x, of any strides, is placed at `border` in it.
struct PadPlan {
  Dims out, in, before, to, from;  // sizes of y and x, border before x, strides of y and x

  PadPlan(const View& y, const View& x, const Dims& border) {
    int order[Dims::max_rank];
    for (int d = 0; d < y.dim(); ++d) {
      int k = d;
      for (; k > 0 && y.strides[order[k - 1]] < y.strides[d]; --k) order[k] = order[k - 1];
      order[k] = d;
    }
    for (int k = 0; k < y.dim(); ++k) {
      const int d = order[k];
      if (y.sizes[d] == 1 && x.sizes[d] == 1) continue;
      const bool plain = y.sizes[d] == x.sizes[d], joins = plain && !out.empty() &&
                                                           to.back() == y.strides[d] * y.sizes[d] &&
                                                           from.back() == x.strides[d] * x.sizes[d];
      if (joins) {
        out.back() *= y.sizes[d], in.back() *= y.sizes[d], before.back() *= y.sizes[d];
        to.back() = y.strides[d], from.back() = x.strides[d];
      } else {
        out.push_back(y.sizes[d]), in.push_back(x.sizes[d]), before.push_back(border[d]);
        to.push_back(y.strides[d]), from.push_back(x.strides[d]);
      }
    }
  }
};

}  // namespace mantissa
