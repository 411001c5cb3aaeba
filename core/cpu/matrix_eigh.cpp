// Eigenvalues and eigenvectors of symmetric matrices: tridiagonalisation by reflections, a block of columns at a time
// (Dongarra, Sorensen and Hammarling, "Block reduction of matrices to condensed forms", 1989); then implicit QR steps
// with Wilkinson's shift (Golub and Van Loan, Matrix Computations, 8.3). The iteration is in f64, whatever the matrix's
// dtype.
#include <limits>
#include <numeric>

#include "core/cpu/matrix_reflect.h"
#include "core/cpu/matrix_rotate.h"
#include "core/decompose.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// a [n, n], both triangles, := rows with the vectors of the reflections right of the diagonal. d [n] is the diagonal, e
// [n - 1] the off-diagonal.
template <class T> void make_tridiagonal(const Matrix<T>& a, double* d, double* e, T* tau) {
  constexpr std::int64_t block = reflection_block;
  const std::int64_t n = a.rows;
  // V, W, V side by side. The update -V W^T - W V^T of the matrix is deferred until a block is complete.
  const Memory<T> memory(3 * block * n);
  const Matrix<T> all{memory.data(), n, 3 * block, 1, n};
  const Memory<T> row_v(block), row_w(block);
  for (std::int64_t k = 0; k < n; k += block) {
    const std::int64_t width = std::min(block, n - k);
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t c = k + j, below = n - c - 1;
      T* const row = &a(c, c);  // dense, and by symmetry also its column
      for (std::int64_t i = 0; i < j; ++i) row_v[i] = all(c, i), row_w[i] = all(c, block + i);
      add_product(T(-1), all.part(c, 0, below + 1, j), row_w.data(), row);
      add_product(T(-1), all.part(c, block, below + 1, j), row_v.data(), row);
      d[c] = static_cast<double>(row[0]);
      if (below == 0) return;
      T* const v = &all(c + 1, j);
      T* const w = &all(c + 1, block + j);
      std::copy_n(row + 1, below, v);
      T length;
      tau[c] = make_reflection(v, below, length);
      e[c] = static_cast<double>(length);
      std::copy_n(v, below, row + 1);
      std::copy_n(v, below, &all(c + 1, 2 * block + j));
      std::fill_n(w, below, T(0));
      if (tau[c] == T(0)) continue;
      add_product(T(1), a.from(c + 1, c + 1), v, w);
      const Matrix<T> before_v = all.part(c + 1, 0, below, j), before_w = all.part(c + 1, block, below, j);
      std::fill_n(row_v.data(), j, T(0));
      std::fill_n(row_w.data(), j, T(0));
      add_product(T(1), before_v.transposed(), v, row_v.data());
      add_product(T(1), before_w.transposed(), v, row_w.data());
      add_product(T(-1), before_v, row_w.data(), w);
      add_product(T(-1), before_w, row_v.data(), w);
      for (std::int64_t i = 0; i < below; ++i) w[i] *= tau[c];
      add_scaled(w, T(-0.5) * tau[c] * dot(w, v, below), v, below);
    }
    const std::int64_t next = k + width;
    if (width < block) return;
    const Matrix<T> rest = all.from(next, 0);
    add_product(T(-1), rest.part(0, 0, n - next, 2 * block), rest.part(0, block, n - next, 2 * block).transposed(),
                a.from(next, next));
  }
}

// Part of a tridiagonal matrix, traversed from either end.
struct Chase {
  double *d, *e;
  std::int64_t first, last;
  bool from_last;
  double& diagonal(std::int64_t i) const { return d[from_last ? last - i : first + i]; }
  double& beside(std::int64_t i) const { return e[from_last ? last - 1 - i : first + i]; }
};

// One QR step, which makes the last off-diagonal element small.
template <class T> void step(const Chase& m, RotatedRows<T>* vectors) {
  const std::int64_t length = m.last - m.first;
  const double corner = m.beside(length - 1), half = (m.diagonal(length - 1) - m.diagonal(length)) / (2.0 * corner);
  const double shift = m.diagonal(length) - corner / (half + std::copysign(std::hypot(half, 1.0), half));
  if (vectors) vectors->begin(m.from_last ? m.last : m.first, m.from_last ? -1 : 1);
  double c = 1.0, s = 1.0, moved = 0.0, g = m.diagonal(0) - shift;
  for (std::int64_t i = 0; i < length; ++i) {
    const double f = s * m.beside(i), b = c * m.beside(i);
    const Rotation turn = rotation_to(g, f);
    c = turn.c, s = turn.s;
    if (i > 0) m.beside(i - 1) = turn.r;
    g = m.diagonal(i) - moved;
    const double r = (m.diagonal(i + 1) - g) * s + 2.0 * c * b;
    moved = s * r;
    m.diagonal(i) = g + moved;
    g = c * r - b;
    if (vectors) vectors->add(c, s);
  }
  m.diagonal(length) -= moved;
  m.beside(length - 1) = g;
}

// d := the eigenvalues; false if the iteration does not converge. Elements as small as the rounding errors of T count
// as 0.
template <class T> bool make_diagonal(std::int64_t n, double* d, double* e, RotatedRows<T>* vectors) {
  double size = 0;
  for (std::int64_t i = 0; i < n; ++i) size = std::max({size, std::abs(d[i]), i + 1 < n ? std::abs(e[i]) : 0.0});
  const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2, tiny = 0.05 * epsilon * size;
  const auto negligible = [&](std::int64_t i) {
    return std::abs(e[i]) <= std::max(tiny, epsilon * std::sqrt(std::abs(d[i]) * std::abs(d[i + 1])));
  };
  std::int64_t steps = 30 * n, top = -1, bottom = -1;  // the part for which the direction was chosen
  bool from_last = false;
  for (std::int64_t last = n - 1; last > 0;) {
    std::int64_t first = last;
    while (first > 0 && !negligible(first - 1)) --first;
    if (first == last) {
      e[--last] = 0.0;
      continue;
    }
    if (steps-- == 0) return false;
    if (first > bottom || last < top) from_last = std::abs(d[first]) < std::abs(d[last]);  // towards the smaller end
    top = first, bottom = last;
    step(Chase{d, e, first, last, from_last}, vectors);
  }
  if (vectors) vectors->flush();
  return true;
}

template <class T> bool decompose(const Matrix<T>& a, double* values, const Matrix<T>& vectors_t) {
  const std::int64_t n = a.rows;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i + 1; j < n; ++j) a(i, j) = T(0);
  const T scale = good_scale(a);
  if (scale == T(0)) {
    std::fill_n(values, n, std::numeric_limits<double>::quiet_NaN());
    if (vectors_t.data) fill(vectors_t, std::numeric_limits<T>::quiet_NaN());
    return true;
  }
  multiply_by(a, scale);
  constexpr std::int64_t side = 32;
  for (std::int64_t i = 0; i < n; i += side)  // copy the lower triangle to the upper one
    for (std::int64_t j = i; j < n; j += side)
      for (std::int64_t p = i; p < std::min(i + side, n); ++p)
        for (std::int64_t q = std::max(j, p); q < std::min(j + side, n); ++q) a(p, q) = a(q, p);
  const Memory<double> d(n), e(n);
  const Memory<T> tau(n);
  make_tridiagonal(a, d.data(), e.data(), tau.data());
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto by_value = [&](std::int64_t i, std::int64_t j) { return d[i] < d[j]; };
  bool good;
  if (vectors_t.data) {
    RotatedRows<T> rows(n, n);
    const Matrix<T> q = rows.matrix();
    set_identity(q);
    multiply_reflections(q.transposed(), a.transposed(), tau.data(), n - 1, 1, true);
    good = make_diagonal(n, d.data(), e.data(), &rows);
    std::stable_sort(order.begin(), order.end(), by_value);
    for (std::int64_t i = 0; good && i < n; ++i)
      assign(vectors_t.part(i, 0, 1, n), q.part(order[static_cast<std::size_t>(i)], 0, 1, n));
  } else {
    good = make_diagonal<T>(n, d.data(), e.data(), nullptr);
    std::stable_sort(order.begin(), order.end(), by_value);
  }
  for (std::int64_t i = 0; i < n; ++i) values[i] = d[order[static_cast<std::size_t>(i)]] / static_cast<double>(scale);
  return good;
}

}  // namespace

void dense_eigh(const View& a, const View& values, const View& vectors_t, const View& good) {
  const std::int64_t n = a.size(1);
  const double work = 9.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  if (n == 0) return std::fill_n(good.as<bool>(), a.size(0), true), void();
  visit_precise(a.dtype, [&]<class T> {
    for_matrices(a.size(0), work, [&](std::int64_t item) {
      good.as<bool>()[item] = decompose(matrix_of<T>(a, item), values.as<double>() + item * n,
                                        vectors_t ? matrix_of<T>(vectors_t, item) : Matrix<T>());
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
