// How core/layout.h merges the dimensions of a loop, for any type with `sizes` and an array `strides` of Dims, one per
// operand.
#pragma once

#include <iterator>

#include "core/dims.h"

namespace mantissa {

template <class L> L collapse_dimensions(const Dims& sizes, const Dims* const* strides, int operands) {
  L loop;
  for (int i = 0; i < sizes.rank(); ++i) {
    if (sizes[i] == 1) continue;
    bool merge = !loop.sizes.empty();
    for (int k = 0; k < operands && merge; ++k) { merge = loop.strides[k].back() == sizes[i] * (*strides[k])[i]; }
    if (merge) {
      loop.sizes.back() *= sizes[i];
      for (int k = 0; k < operands; ++k) loop.strides[k].back() = (*strides[k])[i];
    } else {
      loop.sizes.push_back(sizes[i]);
      for (int k = 0; k < operands; ++k) loop.strides[k].push_back((*strides[k])[i]);
    }
  }
  if (loop.sizes.empty()) {
    loop.sizes.push_back(1);
    for (int k = 0; k < operands; ++k) loop.strides[k].push_back(1);
  }
  return loop;
}

template <class L> L collapse_dimensions_in_memory_order(const Dims& sizes, const Dims* const* strides, int operands) {
  const int rank = sizes.rank();
  const Dims& first = *strides[0];
  int order[Dims::max_rank], count = 0;
  bool sorted = true;
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] == 1) continue;
    int at = count++;
    for (; at > 0 && first[order[at - 1]] < first[d]; --at) order[at] = order[at - 1], sorted = false;
    order[at] = d;
  }
  if (sorted) return collapse_dimensions<L>(sizes, strides, operands);
  constexpr std::size_t most = std::size(decltype(L::strides){});
  Dims moved_sizes, moved[most];
  const Dims* list[most];
  for (int i = 0; i < count; ++i) moved_sizes.push_back(sizes[order[i]]);
  for (int k = 0; k < operands; ++k) {
    for (int i = 0; i < count; ++i) moved[k].push_back((*strides[k])[order[i]]);
    list[k] = &moved[k];
  }
  return collapse_dimensions<L>(moved_sizes, list, operands);
}

}  // namespace mantissa
