// Batches of small f32 products, for which a library call costs more than the work: each is a few register tiles
// (core/cpu/gemm_tile.h). The right-hand side is copied into panels unless its rows are whole vectors as they lie.
#include "core/gemm_small.h"

#include <algorithm>

#include "core/cpu/gemm_tile.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

void gemm_small(const SmallProduct& p, const float* a, const float* b, float* c) {
  using namespace gemm_tile;
  alignas(64) float panels[most_small * (most_small + max_columns)];
  const bool lies = p.b_col == 1 && p.n % width == 0;
  if (!lies) {
    for (std::int64_t j = 0; j < p.n; j += max_columns) {
      const std::int64_t columns = std::min(max_columns, p.n - j);
      float* panel = panels + j * p.k;
      for (std::int64_t k = 0; k < p.k; ++k, panel += max_columns) {
        const float* row = b + k * p.b_row + j * p.b_col;
        for (std::int64_t i = 0; i < columns; ++i) panel[i] = row[i * p.b_col];
        std::fill(panel + columns, panel + max_columns, 0.0f);
      }
    }
  }
  const Operands o{a, p.a_row, p.a_col, lies ? b : panels, lies ? p.b_row : max_columns, c, p.n, p.k};
  multiply_block(p.m, p.n, o, lies ? max_columns : p.k * max_columns, false);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
