// The micro-kernel of all f32 products: a tile of c, held in registers, accumulates outer products over k.
//   c[i][j] = (add ? c[i][j] : 0) + sum over k of a[i * a_row + k * a_col] * b[k * b_row + j]
// Elements of a are broadcast, so it may have any strides: rows in place (a_col 1), packed panels, or the transpose of
// a matrix (a_row 1). Rows of b are read as whole vectors: pack them in panels of max_columns, padded with anything
// readable, or pass a matrix whose row stride is a multiple of the vector width. Only columns of c are masked. Each
// element is summed in order, in chains of 64 fused multiply-adds that are then added up, independently of the tile
// size: the error of a single long chain would grow with the depth, not with its square root.
//
// Measured on one core of Zen 5, operands in L2, depths 64 to 512, all three kinds of strides: 227 to 235 GFLOP/s with
// AVX-512 (14 x 2 vectors; 8 x 3, 6 x 4 and 12 x 2 are within 3 % of it), 117 to 120 with AVX2 (6 x 2).
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "core/cpu/rows.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::gemm_tile {

using V = Vec<float>;
inline constexpr std::int64_t width = static_cast<std::int64_t>(V::size);
// Sums take 28 of 32 registers, or 12 of 16.
#if defined(__AVX512F__)
inline constexpr std::int64_t max_rows = 14, max_vectors = 2;
#else
inline constexpr std::int64_t max_rows = 6, max_vectors = 2;
#endif
inline constexpr std::int64_t max_columns = max_vectors * width;
inline constexpr std::int64_t chain = 64;

struct Operands {
  const float* a;
  std::int64_t a_row, a_col;
  const float* b;
  std::int64_t b_row;
  float* c;
  std::int64_t c_row;
  std::int64_t depth;  // >= 0
};

// `columns`: existing columns; more than Vectors - 1 vectors, at most Vectors.
template <int Rows, int Vectors> void multiply_registers(const Operands& o, std::int64_t columns, bool add) {
  V sum[Rows][Vectors];
  alignas(64) float earlier[Rows][Vectors * width];  // sum of the chains before this one
  // One pointer for three rows: one per row would not fit the general registers.
  constexpr int groups = (Rows + 2) / 3;
  const std::int64_t a_row = o.a_row, a_col = o.a_col, b_row = o.b_row;
  const float *b = o.b, *a[groups];
  for (int g = 0; g < groups; ++g) a[g] = o.a + 3 * g * a_row;
  for (std::int64_t left = o.depth; left >= 0; left -= chain) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sum[i][j] = V(0.0f);
    }
    for (std::int64_t k = left < chain ? left : chain; k > 0; --k) {
      V right[Vectors];
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) right[j] = load(b + j * width);
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) {
        const V left_element(a[i / 3][(i % 3) * a_row]);
#pragma GCC unroll 4
        for (int j = 0; j < Vectors; ++j) sum[i][j] = xsimd::fma(left_element, right[j], sum[i][j]);
      }
      b += b_row;
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) a[g] += a_col;
    }
    if (left < o.depth) {
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < Vectors; ++j) sum[i][j] += load(earlier[i] + j * width);
      }
    }
    if (left <= chain) break;
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) store(earlier[i] + j * width, sum[i][j]);
    }
  }
  if (columns == Vectors * width) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) {
        float* to = o.c + i * o.c_row + j * width;
        store(to, add ? load(to) + sum[i][j] : sum[i][j]);
      }
    }
    return;
  }
  const std::int64_t rest = columns - (Vectors - 1) * width;  // of the last vector
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
    float* to = o.c + i * o.c_row;
#pragma GCC unroll 4
    for (int j = 0; j < Vectors - 1; ++j, to += width) store(to, add ? load(to) + sum[i][j] : sum[i][j]);
    store_part(to, add ? load_part(to, rest) + sum[i][Vectors - 1] : sum[i][Vectors - 1], rest);
  }
}

using Multiply = void (*)(const Operands&, std::int64_t columns, bool add);
template <int Vectors, std::size_t... I> constexpr auto with_rows(std::index_sequence<I...>) {
  return std::array<Multiply, sizeof...(I)>{&multiply_registers<static_cast<int>(I) + 1, Vectors>...};
}
template <std::size_t... I> constexpr auto with_vectors(std::index_sequence<I...>) {
  return std::array{with_rows<static_cast<int>(I) + 1>(std::make_index_sequence<max_rows>{})...};
}
inline constexpr auto multiply_table = with_vectors(std::make_index_sequence<max_vectors>{});

// One tile: 1 <= rows <= max_rows, 1 <= columns <= max_columns.
inline void multiply(std::int64_t rows, std::int64_t columns, const Operands& o, bool add) {
  multiply_table[static_cast<std::size_t>((columns - 1) / width)][static_cast<std::size_t>(rows - 1)](o, columns, add);
}

// Rows cut into as few tiles as possible, of almost equal size: the first `rows % tiles` have one row more.
struct RowTiles {
  std::int64_t rows, tiles;
  explicit RowTiles(std::int64_t n) : rows(n), tiles((n + max_rows - 1) / max_rows) {}
  std::int64_t begin(std::int64_t t) const { return t * (rows / tiles) + (t < rows % tiles ? t : rows % tiles); }
  std::int64_t size(std::int64_t t) const { return rows / tiles + (t < rows % tiles); }
};

// A block of any size. Panel p of b, columns [p * max_columns, ...), begins at b + p * b_panel; for rows of a single
// matrix b_panel is max_columns. A panel is used for all rows while it is in the L1 cache. before(i, n) is called
// before the i-th of n tiles: for prefetching what comes after this block.
template <class Before>
inline void multiply_block(std::int64_t rows, std::int64_t columns, const Operands& o, std::int64_t b_panel, bool add,
                           const Before& before) {
  const RowTiles cut(rows);
  const std::int64_t all = cut.tiles * ((columns + max_columns - 1) / max_columns);
  Operands tile = o;
  for (std::int64_t j = 0, p = 0, i = 0; j < columns; j += max_columns, ++p) {
    const std::int64_t n = columns - j < max_columns ? columns - j : max_columns;
    tile.b = o.b + p * b_panel;
    for (std::int64_t t = 0; t < cut.tiles; ++t) {
      before(i++, all);
      tile.a = o.a + cut.begin(t) * o.a_row;
      tile.c = o.c + cut.begin(t) * o.c_row + j;
      multiply(cut.size(t), n, tile, add);
    }
  }
}
inline void multiply_block(std::int64_t rows, std::int64_t columns, const Operands& o, std::int64_t b_panel, bool add) {
  multiply_block(rows, columns, o, b_panel, add, [](std::int64_t, std::int64_t) {});
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::gemm_tile
