// Shared by core/gemm_few_rows.cpp and core/cpu/gemm_few_rows.cpp: products of few rows with a weight stored as linear
// layers store it: c [m, n] = a [m, k] @ transpose(b [n, k]) + bias. Each weight is read from memory once, in place;
// nothing is packed. Sums in f32 (vectorised along k, so that an element's bits depend on k alone), rounded once.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace mantissa {

struct FewRows {
  Dtype dtype;  // of b and bias, and of c unless `wide`: f32, bf16 or f16
  std::int64_t m, n, k;
  const float* a;  // rows of k floats, row stride a_row
  std::int64_t a_row;
  const void* b;
  std::int64_t b_row;
  const void* bias;  // [n] dense, or null
  void* c;           // rows of n elements, row stride c_row
  std::int64_t c_row;
  bool wide = false;  // c is f32: the sums are not rounded
};
inline constexpr std::int64_t most_few_rows = 32, most_few_pixels = 16;

// Columns [first, last) of c.
MANTISSA_KERNEL(gemm_few_rows, const FewRows& p, std::int64_t first, std::int64_t last)
// The same for one row by a matrix whose rows along n are contiguous: b_row is the stride of k.
MANTISSA_KERNEL(gemm_few_rows_across, const FewRows& p, std::int64_t first, std::int64_t last)
// All of c, in parallel (core/gemm_few_rows.cpp).
void multiply_few_rows(const FewRows& p);

}  // namespace mantissa
