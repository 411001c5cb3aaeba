// c += a @ b in f64: panels of a and b are packed so that the innermost loop, which keeps one block of c in registers,
// reads memory sequentially. Every element is summed over k in the same order whatever the strides.
#include <algorithm>

#include "core/cpu/simd.h"
#include "core/kernel.h"

namespace mantissa {
MANTISSA_KERNEL(gemm_f64, std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t a_row,
                std::int64_t a_col, const double* b, std::int64_t b_row, std::int64_t b_col, double* c,
                std::int64_t c_row)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using V = Vec<double>;
constexpr std::int64_t width = static_cast<std::int64_t>(V::size);
constexpr std::int64_t block_rows = width == 8 ? 8 : 4, vectors = 3, block_columns = vectors * width;
constexpr std::int64_t rows_step = 64, columns_step = 8 * block_columns, k_step = 256;  // panels fit the caches

// to[block][p][i] = from[(block * size + i) * major + p * minor], padded with zeros to whole blocks.
void pack(double* to, std::int64_t size, const double* from, std::int64_t count, std::int64_t major,
          std::int64_t length, std::int64_t minor) {
  for (std::int64_t at = 0; at < count; at += size) {
    const std::int64_t real = std::min(size, count - at);
    for (std::int64_t i = 0; i < size; ++i) {
      const double* line = from + (at + i) * major;
      for (std::int64_t p = 0; p < length; ++p) to[p * size + i] = i < real ? line[p * minor] : 0.0;
    }
    to += size * length;
  }
}

// One register block: out = (packed a) @ (packed b).
void multiply_block(const double* a, const double* b, std::int64_t length, double* out) {
  V sum[block_rows][vectors];
  for (auto& row : sum) for (auto& v : row) v = V(0.0);
  for (std::int64_t p = 0; p < length; ++p) {
    V right[vectors];
    for (int j = 0; j < vectors; ++j) right[j] = load(b + p * block_columns + j * width);
    for (int i = 0; i < block_rows; ++i) {
      const V left(a[p * block_rows + i]);
      for (int j = 0; j < vectors; ++j) sum[i][j] = xsimd::fma(left, right[j], sum[i][j]);
    }
  }
  for (int i = 0; i < block_rows; ++i) {
    for (int j = 0; j < vectors; ++j) store(out + i * block_columns + j * width, sum[i][j]);
  }
}

}  // namespace

void gemm_f64(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t a_row, std::int64_t a_col,
              const double* b, std::int64_t b_row, std::int64_t b_col, double* c, std::int64_t c_row) {
  alignas(64) thread_local double a_panel[rows_step * k_step], b_panel[columns_step * k_step];
  alignas(64) double block[block_rows * block_columns];
  for (std::int64_t p = 0; p < k; p += k_step) {
    const std::int64_t length = std::min(k_step, k - p);
    for (std::int64_t j = 0; j < n; j += columns_step) {
      const std::int64_t columns = std::min(columns_step, n - j);
      pack(b_panel, block_columns, b + p * b_row + j * b_col, columns, b_col, length, b_row);
      for (std::int64_t i = 0; i < m; i += rows_step) {
        const std::int64_t rows = std::min(rows_step, m - i);
        pack(a_panel, block_rows, a + i * a_row + p * a_col, rows, a_row, length, a_col);
        for (std::int64_t jj = 0; jj < columns; jj += block_columns) {
          for (std::int64_t ii = 0; ii < rows; ii += block_rows) {
            multiply_block(a_panel + ii * length, b_panel + jj * length, length, block);
            double* out = c + (i + ii) * c_row + j + jj;
            for (std::int64_t r = 0; r < std::min(block_rows, rows - ii); ++r) {
              for (std::int64_t s = 0; s < std::min(block_columns, columns - jj); ++s)
                out[r * c_row + s] += block[r * block_columns + s];
            }
          }
        }
      }
    }
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
