// c += alpha a b for the decompositions, whose operands are submatrices with any strides: panels of a and b are packed
// so that the innermost loop, which keeps one block of c in registers, reads memory sequentially.
#include "core/cpu/matrix.h"
#include "core/cpu/simd.h"
#include "core/gemm.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t block_rows = 8;
#else
constexpr std::int64_t block_rows = 6;
#endif
constexpr std::int64_t vectors = 2, depth_step = 256, rows_step = 16 * block_rows;
template <class T> constexpr std::int64_t width = static_cast<std::int64_t>(Vec<T>::size);
template <class T> constexpr std::int64_t block_columns = vectors* width<T>;
template <class T> constexpr std::int64_t columns_step = 8 * block_columns<T>;

std::int64_t up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

// to[block][p][i] = from[(block * size + i) * major + p * minor], padded with zeros to whole blocks.
template <std::int64_t size, class T>
void pack(T* to, const T* from, std::int64_t count, std::int64_t major, std::int64_t length, std::int64_t minor) {
  for (std::int64_t at = 0; at < count; at += size, to += size * length) {
    const std::int64_t real = std::min(size, count - at);
    const T* lines = from + at * major;
    if (real == size && major == 1) {
      for (std::int64_t p = 0; p < length; ++p)
        for (std::int64_t i = 0; i < size; ++i) to[p * size + i] = lines[p * minor + i];
    } else if (real == size) {
      for (std::int64_t p = 0; p < length; ++p)
        for (std::int64_t i = 0; i < size; ++i) to[p * size + i] = lines[i * major + p * minor];
    } else {
      for (std::int64_t p = 0; p < length; ++p)
        for (std::int64_t i = 0; i < size; ++i) to[p * size + i] = i < real ? lines[i * major + p * minor] : T(0);
    }
  }
}

// c [rows, columns] += alpha (packed a) (packed b), one register block.
template <class T> void add_block(T alpha, const T* a, const T* b, std::int64_t length, const Matrix<T>& c) {
  using V = Vec<T>;
  V sum[block_rows][vectors];
#pragma GCC unroll 8
  for (auto& row : sum)
    for (auto& v : row) v = V(T(0));
  for (std::int64_t p = 0; p < length; ++p, a += block_rows, b += block_columns<T>) {
    V right[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) right[j] = load(b + j * width<T>);
#pragma GCC unroll 8
    for (int i = 0; i < block_rows; ++i) {
      const V left(a[i]);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = xsimd::fma(left, right[j], sum[i][j]);
    }
  }
  const V factor(alpha);
  if (c.rows == block_rows && c.columns == block_columns<T>) {
#pragma GCC unroll 8
    for (int i = 0; i < block_rows; ++i) {
      T* const row = c.data + i * c.row;
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j)
        store(row + j * width<T>, xsimd::fma(factor, sum[i][j], load(row + j * width<T>)));
    }
    return;
  }
  alignas(64) T block[block_rows][block_columns<T>];
  for (int i = 0; i < block_rows; ++i)
    for (int j = 0; j < vectors; ++j) store(block[i] + j * width<T>, factor * sum[i][j]);
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.columns; ++j) c(i, j) += block[i][j];
}

// Requires dense rows of c. On the calling thread.
template <class T> void add_piece(T alpha, const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& c) {
  constexpr std::int64_t across = block_columns<T>;
  const std::int64_t depth = std::min(a.columns, depth_step);
  const std::int64_t rows_packed = up(std::min(c.rows, rows_step), block_rows);
  const Memory<T> a_panel(rows_packed * depth), b_panel(up(std::min(c.columns, columns_step<T>), across) * depth);
  for (std::int64_t p = 0; p < a.columns; p += depth_step) {
    const std::int64_t length = std::min(depth_step, a.columns - p);
    for (std::int64_t j = 0; j < c.columns; j += columns_step<T>) {
      const std::int64_t columns = std::min(columns_step<T>, c.columns - j);
      pack<across>(b_panel.data(), &b(p, j), columns, b.column, length, b.row);
      for (std::int64_t i = 0; i < c.rows; i += rows_step) {
        const std::int64_t rows = std::min(rows_step, c.rows - i);
        pack<block_rows>(a_panel.data(), &a(i, p), rows, a.row, length, a.column);
        for (std::int64_t jj = 0; jj < columns; jj += across) {
          for (std::int64_t ii = 0; ii < rows; ii += block_rows) {
            add_block(alpha, a_panel.data() + ii * length, b_panel.data() + jj * length, length,
                      c.part(i + ii, j + jj, std::min(block_rows, rows - ii), std::min(across, columns - jj)));
          }
        }
      }
    }
  }
}

template <class T> void add_product_of(T alpha, const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& c) {
  if (c.rows == 0 || c.columns == 0 || a.columns == 0) return;
  if (c.column != 1 && c.row == 1) return add_product_of(alpha, b.transposed(), a.transposed(), c.transposed());
  const double work =
      2.0 * static_cast<double>(c.rows) * static_cast<double>(c.columns) * static_cast<double>(a.columns);
  constexpr double tiny = 2e3;
  if (work <= tiny) {  // packing would cost more
    for (std::int64_t i = 0; i < c.rows; ++i) {
      for (std::int64_t j = 0; j < c.columns; ++j) {
        T sum = 0;
        for (std::int64_t p = 0; p < a.columns; ++p) sum += a(i, p) * b(p, j);
        c(i, j) += alpha * sum;
      }
    }
    return;
  }
  if (c.columns == 1 || c.rows == 1) {
    const bool column = c.columns == 1;
    const Matrix<T> m = column ? a : b.transposed(), vector = column ? b : a.transposed(),
                    to = column ? c : c.transposed();
    const Memory<T> x(m.columns), y(m.rows);
    for (std::int64_t i = 0; i < m.columns; ++i) x[i] = vector(i, 0);
    for (std::int64_t i = 0; i < m.rows; ++i) y[i] = to(i, 0);
    add_product(alpha, m, x.data(), y.data());
    for (std::int64_t i = 0; i < m.rows; ++i) to(i, 0) = y[i];
    return;
  }
  if (c.column != 1) {
    OwnMatrix<T> copy(c.rows, c.columns);
    assign<T>(copy, c);
    add_product_of<T>(alpha, a, b, copy);
    return assign<T>(c, copy);
  }
  // Whole blocks for every piece. Each packs its part of a and of b, so the longer side is cut.
  const std::int64_t pieces = pieces_for(work);
  std::int64_t down = 1, across = 1;
  while (down * across < pieces) {
    const bool cut_rows = c.rows * across >= c.columns * down;
    (cut_rows ? down : across) *= 2;
  }
  const std::int64_t rows = up((c.rows + down - 1) / down, block_rows);
  const std::int64_t columns = up((c.columns + across - 1) / across, block_columns<T>);
  parallel_for(down * across, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t i = k / across * rows, j = k % across * columns;
      if (i >= c.rows || j >= c.columns) continue;
      const std::int64_t m = std::min(rows, c.rows - i), n = std::min(columns, c.columns - j);
      add_piece(alpha, a.part(i, 0, m, a.columns), b.part(0, j, b.rows, n), c.part(i, j, m, n));
    }
  });
}

// y[i] += alpha sum over j of a[i][j] x[j], rows dense.
template <class T> void add_dots(T alpha, const Matrix<T>& a, const T* x, T* y) {
  using V = Vec<T>;
  constexpr std::int64_t w = width<T>;
  std::int64_t i = 0;
  for (; i + 4 <= a.rows; i += 4) {
    const T *r0 = &a(i, 0), *r1 = r0 + a.row, *r2 = r1 + a.row, *r3 = r2 + a.row;
    V s0(T(0)), s1(T(0)), s2(T(0)), s3(T(0)), t0(T(0)), t1(T(0)), t2(T(0)), t3(T(0));
    std::int64_t j = 0;
    for (; j + 2 * w <= a.columns; j += 2 * w) {
      const V x0 = load(x + j), x1 = load(x + j + w);
      s0 = xsimd::fma(load(r0 + j), x0, s0), t0 = xsimd::fma(load(r0 + j + w), x1, t0);
      s1 = xsimd::fma(load(r1 + j), x0, s1), t1 = xsimd::fma(load(r1 + j + w), x1, t1);
      s2 = xsimd::fma(load(r2 + j), x0, s2), t2 = xsimd::fma(load(r2 + j + w), x1, t2);
      s3 = xsimd::fma(load(r3 + j), x0, s3), t3 = xsimd::fma(load(r3 + j + w), x1, t3);
    }
    T sum[4] = {xsimd::hadd(s0 + t0), xsimd::hadd(s1 + t1), xsimd::hadd(s2 + t2), xsimd::hadd(s3 + t3)};
    for (; j < a.columns; ++j)
      sum[0] += r0[j] * x[j], sum[1] += r1[j] * x[j], sum[2] += r2[j] * x[j], sum[3] += r3[j] * x[j];
    for (int k = 0; k < 4; ++k) y[i + k] += alpha * sum[k];
  }
  for (; i < a.rows; ++i) {
    const T* row = &a(i, 0);
    V s(T(0));
    std::int64_t j = 0;
    for (; j + w <= a.columns; j += w) s = xsimd::fma(load(row + j), load(x + j), s);
    T sum = xsimd::hadd(s);
    for (; j < a.columns; ++j) sum += row[j] * x[j];
    y[i] += alpha * sum;
  }
}
// The same with dense columns: y += alpha x[j] (column j), four columns at a time.
template <class T> void add_columns(T alpha, const Matrix<T>& a, const T* x, T* y) {
  std::int64_t j = 0;
  for (; j + 4 <= a.columns; j += 4) {
    const T *c0 = &a(0, j), *c1 = c0 + a.column, *c2 = c1 + a.column, *c3 = c2 + a.column;
    const T x0 = alpha * x[j], x1 = alpha * x[j + 1], x2 = alpha * x[j + 2], x3 = alpha * x[j + 3];
    for (std::int64_t i = 0; i < a.rows; ++i) y[i] += (c0[i] * x0 + c1[i] * x1) + (c2[i] * x2 + c3[i] * x3);
  }
  for (; j < a.columns; ++j) {
    const T* c0 = &a(0, j);
    const T x0 = alpha * x[j];
    for (std::int64_t i = 0; i < a.rows; ++i) y[i] += c0[i] * x0;
  }
}

template <class T> void add_product_of(T alpha, const Matrix<T>& a, const T* x, T* y) {
  if (a.rows == 0 || a.columns == 0) return;
  if (a.column != 1 && a.row != 1) {
    for (std::int64_t i = 0; i < a.rows; ++i) {
      T sum = 0;
      for (std::int64_t j = 0; j < a.columns; ++j) sum += a(i, j) * x[j];
      y[i] += alpha * sum;
    }
    return;
  }
  constexpr std::int64_t piece = 64 << 10;  // elements of a that are worth a thread
  const std::int64_t grain = up(std::max<std::int64_t>(64, piece / a.columns), 64);
  parallel_for(a.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    const Matrix<T> part = a.part(begin, 0, end - begin, a.columns);
    if (a.column == 1) add_dots(alpha, part, x, y + begin);
    else add_columns(alpha, part, x, y + begin);
  });
}

}  // namespace

void add_product(float alpha, const Matrix<float>& a, const Matrix<float>& b, const Matrix<float>& c) {
  add_product_of(alpha, a, b, c);
}
void add_product(double alpha, const Matrix<double>& a, const Matrix<double>& b, const Matrix<double>& c) {
  add_product_of(alpha, a, b, c);
}
void add_product(float alpha, const Matrix<float>& a, const float* x, float* y) { add_product_of(alpha, a, x, y); }
void add_product(double alpha, const Matrix<double>& a, const double* x, double* y) { add_product_of(alpha, a, x, y); }

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
