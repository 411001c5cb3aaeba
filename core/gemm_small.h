// What core/gemm.cpp and core/cpu/gemm_small.cpp tell each other about a batch of small f32 products.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace mantissa {

inline constexpr std::int64_t most_small = 64;  // rows, columns and depth

struct SmallProduct {
  std::int64_t m, n, k;  // none above most_small; k >= 1
  std::int64_t a_row, a_col, b_row, b_col;
};
// c = a @ b, c dense. The bits do not depend on strides.
MANTISSA_KERNEL(gemm_small, const SmallProduct& p, const float* a, const float* b, float* c)

}  // namespace mantissa
