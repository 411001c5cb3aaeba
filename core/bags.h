// Bags of rows of a matrix [rows, columns]: bag i consists of the rows indices[k] for k from offsets[i] to
// offsets[i + 1], exclusive, multiplied by factors[k] if there are any. Kernels:
//
//   check_offsets(offsets, indices)   an error unless offsets [bags + 1] begins with 0, does not fall and ends with the
//                                     number of indices
//   sum_bags(y, weight, indices, offsets, factors, how)
//                                     y [bags, columns]; an empty bag gives 0; indices and offsets have been checked;
//                                     f16 and bf16 are summed in f32 and rounded once. All are contiguous
//   add_bags(y, g, indices, offsets)  the gradient without factors: y [rows, columns] += row i of g [bags, columns] for
//                                     each row of bag i, in order. y has contiguous rows, the others are contiguous
#pragma once

#include <cstdint>

namespace mantissa {

struct Bags {
  bool mean = false;
  std::int64_t padding = -1;  // rows with this index do not count
};
// Followed by the number of indices.
inline constexpr const char* wrong_offsets =
    "offsets must begin with 0, not fall, and not exceed the number of indices, where the last bag ends, ";

}  // namespace mantissa
