// The CPU algorithms for matrix products, and which products each is for. core/gemm.cpp tries them in order and takes
// the first that applies; the tests must not depend on strides where a view and its copy must give the same bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/gemm.h"

namespace mantissa::gemm_ways {

inline std::int64_t rows_of(const View& v) { return v.size(v.dim() - 2); }
inline std::int64_t columns_of(const View& v) { return v.size(v.dim() - 1); }
inline std::int64_t row_stride(const View& v) { return v.strides[v.dim() - 2]; }
inline std::int64_t column_stride(const View& v) { return v.strides[v.dim() - 1]; }
inline bool lies_on_its_side(const View& v) { return row_stride(v) > 0 && row_stride(v) < column_stride(v); }
inline View on_its_side(View v) {  // transposes the matrices
  const int last = v.dim() - 1;
  std::swap(v.sizes[last - 1], v.sizes[last]);
  std::swap(v.strides[last - 1], v.strides[last]);
  return v;
}

// y = (add ? y : bias or 0) + a @ b, as kernels::gemm has it.
struct Product {
  const View &y, &a, &b, &bias;
  bool add;
  const KeptWeight& kept;  // of b

  std::int64_t m() const { return rows_of(y); }
  std::int64_t n() const { return columns_of(y); }
  std::int64_t k() const { return columns_of(a); }
  bool plain() const { return !add && !bias; }
  bool is_one_matrix() const { return y.numel() == m() * n(); }
  bool dtypes_agree() const { return a.dtype == y.dtype && b.dtype == y.dtype; }
  // f16 or bf16 operands, f32 result
  bool is_wide() const { return y.dtype == f32 && is_half(a.dtype) && a.dtype == b.dtype; }
};

inline double flops_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::max<std::int64_t>(k, 1));
}
inline constexpr double small_piece = 4e6;  // about twenty microseconds of one core: worth waking a thread
inline constexpr double good_piece = 8e6;   // below this, packing the same panels for every piece costs too much
inline constexpr std::int64_t most_pieces = 32;
struct Grid { std::int64_t down = 1, across = 1; };  // how many pieces a matrix is cut into

// Dot product (core/gemm_dot.cpp).
bool is_dot(const Product& p);
void multiply_dot(const Product& p);

// Small products (core/gemm_small.cpp): plain loops; matrices of a few elements, such as rotations of points; outer
// products; batches of small matrices.
bool is_minute(const Product& p);
void multiply_by_loops(const Product& p);
bool is_tiny(const Product& p);
bool is_tiny_and_short(const Product& p);
void multiply_tiny(const Product& p);
bool is_outer(const Product& p);
void multiply_outer(const Product& p);
bool is_small(const Product& p);
void multiply_small(const Product& p);

// Few rows or few columns (core/gemm_few_rows.cpp), by a large matrix that is read once, in place.
bool is_few_rows(const Product& p);
void multiply_by_rows(const Product& p);
bool is_row_across(const Product& p);
void multiply_across(const Product& p);
bool is_one_column(const Product& p);
void multiply_by_column(const Product& p);
bool is_few_columns(const Product& p);
void multiply_few_columns(const Product& p);
bool is_batch_of_columns(const Product& p);
void multiply_columns(const Product& p);
bool is_batch_of_rows(const Product& p);
void multiply_rows(const Product& p);

// All others: f16 and bf16 (core/gemm_half.cpp), f32 and f64 (core/gemm_pieces.cpp).
bool is_of_halves(const Product& p);
void multiply_halves(const Product& p);
void multiply_in_pieces(const Product& p);

}  // namespace mantissa::gemm_ways
