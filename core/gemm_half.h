// Shared by core/gemm_half.cpp and core/cpu/gemm_half.cpp: products of f16 or bf16 matrices.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace mantissa {

// c = a @ b + bias for one matrix, or for a block of its rows and columns. Strides in elements; rows of c are dense.
struct HalfProduct {
  Dtype dtype;  // f16 or bf16: of a, b and bias, and of c unless `wide`
  std::int64_t m, n, k;
  const void* a;
  std::int64_t a_row, a_col;
  const void* b;
  std::int64_t b_row, b_col;
  const void* bias;  // [n], or null
  void* c;
  std::int64_t c_row;
  bool c_transposed;  // c is stored as [n, m] with column stride c_row, and bias is [m]
  std::uint32_t* packed;  // all of b, packed by gemm_half_pack into panels of half_panel columns
  bool wide;              // c is f32: the sums are not rounded
  bool add = false;       // adds to c, which must be wide
};
// for every instruction set, so that the partition does not depend on it
inline constexpr std::int64_t half_panel = 32;

// Number of 4-byte units that one packed panel of b takes.
MANTISSA_KERNEL(gemm_half_units, const HalfProduct& p, std::int64_t* units)
// Packs panels [first, last) of b into p.packed.
MANTISSA_KERNEL(gemm_half_pack, const HalfProduct& p, std::int64_t first, std::int64_t last)
// Rows [row, row + rows) and columns [column, column + columns) of c; `column` is a multiple of half_panel.
MANTISSA_KERNEL(gemm_half, const HalfProduct& p, std::int64_t row, std::int64_t rows, std::int64_t column,
                std::int64_t columns)

}  // namespace mantissa
