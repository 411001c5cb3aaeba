// Dense matrices for the decompositions of core/decompose.h: a pointer, sizes and two strides of any sign, so that a
// submatrix, the transpose and the matrix reversed in both directions are views, and one algorithm serves upper and
// lower triangles, left and right sides. Most of the work is done in add_product.
//
// Work is cut into pieces by shape alone (core/parallel.h), so bits do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/allocator.h"
#include "core/parallel.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

template <class T> struct Matrix {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row = 0, column = 1;  // stride of rows and of columns, in elements

  T& operator()(std::int64_t i, std::int64_t j) const { return data[i * row + j * column]; }
  Matrix part(std::int64_t i, std::int64_t j, std::int64_t part_rows, std::int64_t part_columns) const {
    return {data + i * row + j * column, part_rows, part_columns, row, column};
  }
  Matrix from(std::int64_t i, std::int64_t j) const { return part(i, j, rows - i, columns - j); }
  Matrix transposed() const { return {data, columns, rows, column, row}; }
  Matrix last_row_first() const { return {data + (rows - 1) * row, rows, columns, -row, column}; }
  Matrix last_column_first() const { return {data + (columns - 1) * column, rows, columns, row, -column}; }
};

// Uninitialised memory of the caching allocator.
template <class T> class Memory {
 public:
  explicit Memory(std::int64_t count)
      : bytes_(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(T)),
        data_(static_cast<T*>(cpu_allocator().allocate(bytes_))) {}
  ~Memory() { cpu_allocator().deallocate(data_, bytes_); }
  Memory(const Memory&) = delete;
  T* data() const { return data_; }
  T& operator[](std::int64_t i) const { return data_[i]; }

 private:
  std::size_t bytes_;
  T* data_;
};

// A matrix with its own memory, row-major.
template <class T> struct OwnMatrix : Matrix<T> {
  OwnMatrix(std::int64_t r, std::int64_t c) : Matrix<T>{nullptr, r, c, c, 1}, memory(r * c) {
    this->data = memory.data();
  }
  Memory<T> memory;
};

// c += alpha a b. c must not overlap a or b. (core/cpu/matrix_product.cpp)
void add_product(float alpha, const Matrix<float>& a, const Matrix<float>& b, const Matrix<float>& c);
void add_product(double alpha, const Matrix<double>& a, const Matrix<double>& b, const Matrix<double>& c);
// y += alpha a x for contiguous vectors.
void add_product(float alpha, const Matrix<float>& a, const float* x, float* y);
void add_product(double alpha, const Matrix<double>& a, const double* x, double* y);

// x := t^-1 x for the lower triangle of t [n, n], with an implicit unit diagonal if `unit`.
// (core/cpu/matrix_triangular.cpp)
void solve_lower(const Matrix<float>& t, const Matrix<float>& x, bool unit);
void solve_lower(const Matrix<double>& t, const Matrix<double>& x, bool unit);
// The same for the upper triangle, which is a lower one in the reversed matrix.
template <class T> void solve_upper(const Matrix<T>& t, const Matrix<T>& x, bool unit) {
  solve_lower(t.last_row_first().last_column_first(), x.last_row_first(), unit);
}

// --- small helpers ---

template <class T> void fill(const Matrix<T>& to, T value) {
  for (std::int64_t i = 0; i < to.rows; ++i)
    for (std::int64_t j = 0; j < to.columns; ++j) to(i, j) = value;
}
template <class T> void set_identity(const Matrix<T>& to) {
  fill(to, T(0));
  for (std::int64_t i = 0; i < std::min(to.rows, to.columns); ++i) to(i, i) = T(1);
}
// In square blocks, so that neither side is accessed with long strides only.
template <class T> void assign(const Matrix<T>& to, const Matrix<const T>& from) {
  constexpr std::int64_t side = 32;
  const bool plain = to.column == 1 && from.column == 1;
  const std::int64_t tall = plain ? 1 : side, wide = plain ? std::max<std::int64_t>(to.columns, 1) : side;
  const std::int64_t grain = std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, tall * to.columns));
  parallel_for((to.rows + tall - 1) / tall, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i0 = begin * tall; i0 < std::min(end * tall, to.rows); i0 += tall)
      for (std::int64_t j0 = 0; j0 < to.columns; j0 += wide)
        for (std::int64_t i = i0; i < std::min(i0 + tall, to.rows); ++i)
          for (std::int64_t j = j0; j < std::min(j0 + wide, to.columns); ++j) to(i, j) = from(i, j);
  });
}
template <class T> void assign(const Matrix<T>& to, const Matrix<T>& from) {
  assign(to, Matrix<const T>{from.data, from.rows, from.columns, from.row, from.column});
}

// Matrix `item` of v [batch, rows, columns].
template <class T> Matrix<T> matrix_of(const View& v, std::int64_t item) {
  return {v.as<T>() + item * v.strides[0], v.size(1), v.size(2), v.strides[1], v.strides[2]};
}
// Calls f(item) for every matrix of a batch, each worth about `flops` operations: small matrices in parallel, large
// ones one after another, as each has work for all threads.
template <class F> void for_matrices(std::int64_t batch, double flops, F&& f) {
  constexpr double large = 3e8, piece = 2e5;  // tens of milliseconds; tens of microseconds
  if (flops >= large) {
    for (std::int64_t i = 0; i < batch; ++i) f(i);
    return;
  }
  const auto grain = static_cast<std::int64_t>(piece / std::max(flops, 1e3));
  parallel_for(batch, std::max<std::int64_t>(1, grain), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
