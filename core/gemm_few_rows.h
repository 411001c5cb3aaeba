// What core/gemm_few_rows.cpp and core/cpu/gemm_few_rows.cpp tell each other about products of few rows with a weight
// that lies as layers keep it: c [m, n] = a [m, k] @ transpose(b [n, k]) + bias. Each weight is read from memory once,
// as it lies; nothing is packed. Sums in f32 (of vectors along k, so that an element's bits depend on k alone), one
// rounding.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace mantissa {

struct FewRows {
  Dtype dtype;  // of b and bias, and of c unless it is wide: f32, bf16 or f16
  std::int64_t m, n, k;
  const float* a;  // rows of k floats, a_row apart
  std::int64_t a_row;
  const void* b;
  std::int64_t b_row;
  const void* bias;  // [n] dense, or null
  void* c;           // rows of n, c_row apart
  std::int64_t c_row;
  bool wide = false;  // c is f32: the sums as they are
};
inline constexpr std::int64_t most_few_rows = 32, most_few_pixels = 16;

// Columns [first, last) of c.
MANTISSA_KERNEL(gemm_few_rows, const FewRows& p, std::int64_t first, std::int64_t last)
// The same for one row by a matrix that lies along n: b_row elements from one k to the next.
MANTISSA_KERNEL(gemm_few_rows_across, const FewRows& p, std::int64_t first, std::int64_t last)
// All of c, in parallel (core/gemm_few_rows.cpp).
void multiply_few_rows(const FewRows& p);

}  // namespace mantissa
