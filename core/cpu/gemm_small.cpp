// Batches of small f32 products, for which a library call costs more than the work: each is a few register tiles
// (core/cpu/gemm_tile.h). The right-hand side is copied into panels unless its rows are already whole vectors.
//
// Tiny matrices, such as 3 x 3 rotations of points, are loops of compile-time length.
#include "core/gemm_small.h"

#include <algorithm>

#include "core/cpu/gemm_tile.h"
#include "core/gemm.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// `rows` rows of c, for one matrix of n columns and k rows.
template <class T, int n, int k>
void multiply_tiny_rows(std::int64_t rows, const T* a, std::int64_t a_row, std::int64_t a_col,
                        const Compute<T> (&b)[most_tiny][most_tiny], const Compute<T> (&bias)[most_tiny], T* c,
                        std::int64_t c_row, std::int64_t c_col) {
  using C = Compute<T>;
  for (std::int64_t i = 0; i < rows; ++i) {
    C sum[n];
#pragma GCC unroll 4
    for (int j = 0; j < n; ++j) sum[j] = bias[j];
#pragma GCC unroll 4
    for (int p = 0; p < k; ++p) {
      const C left = static_cast<C>(a[i * a_row + p * a_col]);
#pragma GCC unroll 4
      for (int j = 0; j < n; ++j) sum[j] += left * b[p][j];
    }
#pragma GCC unroll 4
    for (int j = 0; j < n; ++j) c[i * c_row + j * c_col] = static_cast<T>(sum[j]);
  }
}
template <class T, int n> auto tiny_rows(std::int64_t k) {
  return k == 1 ? &multiply_tiny_rows<T, n, 1> : k == 2 ? &multiply_tiny_rows<T, n, 2>
         : k == 3 ? &multiply_tiny_rows<T, n, 3> : &multiply_tiny_rows<T, n, 4>;
}

}  // namespace

void gemm_tiny(const View& y, const View& a, const View& b, const View& bias, std::int64_t first, std::int64_t last) {
  const int row = y.dim() - 2, column = y.dim() - 1;
  const std::int64_t m = y.sizes[row], n = y.sizes[column], k = b.sizes[row];
  visit_floating(y.dtype, [&]<class T> {
    using C = Compute<T>;
    const auto multiply = n == 1 ? tiny_rows<T, 1>(k) : n == 2 ? tiny_rows<T, 2>(k)
                          : n == 3 ? tiny_rows<T, 3>(k) : tiny_rows<T, 4>(k);
    C right[most_tiny][most_tiny] = {}, start[most_tiny] = {};
    for (std::int64_t j = 0; bias && j < n; ++j) start[j] = static_cast<C>(bias.as<const T>()[j * bias.strides[0]]);
    while (first < last) {
      const std::int64_t item = first / m, from = first % m, rows = std::min(last - first, m - from);
      const T* matrix = b.as<const T>() + item_offset(b, item);
      for (std::int64_t p = 0; p < k; ++p)
        for (std::int64_t j = 0; j < n; ++j)
          right[p][j] = static_cast<C>(matrix[p * b.strides[row] + j * b.strides[column]]);
      multiply(rows, a.as<const T>() + item_offset(a, item) + from * a.strides[row], a.strides[row], a.strides[column],
               right, start, y.as<T>() + item_offset(y, item) + from * y.strides[row], y.strides[row],
               y.strides[column]);
      first += rows;
    }
  });
}

void gemm_small(const SmallProduct& p, const float* a, const float* b, float* c) {
  using namespace gemm_tile;
  alignas(64) float panels[most_small * (most_small + max_columns)];
  const bool lies = p.b_col == 1 && p.n % width == 0, narrow = p.n < width;
  const std::int64_t panel_row = narrow ? width : max_columns;
  if (narrow && p.b_col == 1) {
    for (std::int64_t k = 0; k < p.k; ++k) store(panels + k * width, load_part(b + k * p.b_row, p.n));
  } else if (!lies) {
    for (std::int64_t j = 0; j < p.n; j += panel_row) {
      const std::int64_t columns = std::min(panel_row, p.n - j);
      float* panel = panels + j * p.k;
      for (std::int64_t k = 0; k < p.k; ++k, panel += panel_row) {
        const float* row = b + k * p.b_row + j * p.b_col;
        for (std::int64_t i = 0; i < columns; ++i) panel[i] = row[i * p.b_col];
        std::fill(panel + columns, panel + panel_row, 0.0f);
      }
    }
  }
  const Operands o{a, p.a_row, p.a_col, lies ? b : panels, lies ? p.b_row : panel_row, c, p.n, p.k};
  multiply_block(p.m, p.n, o, lies ? max_columns : p.k * panel_row, false);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
