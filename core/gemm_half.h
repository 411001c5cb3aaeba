// What core/gemm_half.cpp and core/cpu/gemm_half.cpp tell each other about a product of sixteen-bit floats.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace mantissa {

// c = a @ b + bias for one matrix, or a part of its rows and columns. Strides in elements; rows of c are dense.
struct HalfProduct {
  Dtype dtype;  // f16 or bf16, of a, b and bias, and of c unless it is wide
  std::int64_t m, n, k;
  const void* a;
  std::int64_t a_row, a_col;
  const void* b;
  std::int64_t b_row, b_col;
  const void* bias;  // [n], or null
  void* c;
  std::int64_t c_row;
  bool c_transposed;  // c is [n, m] in memory, c_row from column to column, and bias is [m]
  std::uint32_t* packed;  // all of b, as gemm_half_pack leaves it; panels of half_panel columns
  bool wide;              // c is f32: the sums as they are
  bool add = false;       // to a c that is wide
};
inline constexpr std::int64_t half_panel = 32;  // of every instruction set, so that cuts do not depend on it

// Units of four bytes that a panel of b takes.
MANTISSA_KERNEL(gemm_half_units, const HalfProduct& p, std::int64_t* units)
// Panels [first, last) of b into p.packed.
MANTISSA_KERNEL(gemm_half_pack, const HalfProduct& p, std::int64_t first, std::int64_t last)
// Rows [row, row + rows) and columns [column, column + columns) of c; `column` is a multiple of half_panel.
MANTISSA_KERNEL(gemm_half, const HalfProduct& p, std::int64_t row, std::int64_t rows, std::int64_t column,
                std::int64_t columns)

}  // namespace mantissa
