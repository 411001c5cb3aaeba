// Shared by core/gemm_small.cpp and core/cpu/gemm_small.cpp: batches of small products.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace mantissa {

inline constexpr std::int64_t most_small = 64;  // limit on rows, columns and depth

struct SmallProduct {
  std::int64_t m, n, k;  // at most most_small; k >= 1
  std::int64_t a_row, a_col, b_row, b_col;
};
// c = a @ b, c dense. The bits do not depend on strides.
MANTISSA_KERNEL(gemm_small, const SmallProduct& p, const float* a, const float* b, float* c)

// y = a @ b + bias for b with at most most_tiny rows and columns, any number of matrices of any strides in one floating
// dtype; bias [n] or absent. Computes rows [first, last) of all matrices.
inline constexpr std::int64_t most_tiny = 4;
MANTISSA_KERNEL(gemm_tiny, const View& y, const View& a, const View& b, const View& bias, std::int64_t first,
                std::int64_t last)

}  // namespace mantissa
