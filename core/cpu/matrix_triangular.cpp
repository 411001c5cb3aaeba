// Triangular systems, Cholesky decomposition and Gaussian elimination with partial pivoting. Each splits its matrix in
// two recursively, so that all but small diagonal blocks is matrix products (Toledo, "Locality of reference in LU
// decomposition with partial pivoting", 1997; Elmroth et al., "Recursive blocked algorithms", 2004).
#include <cmath>

#include "core/cpu/matrix.h"
#include "core/cpu/simd.h"
#include "core/decompose.h"
#include "core/visit_word.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t small = 32;  // rows of the diagonal blocks
// Size of the first half of n rows, in whole blocks.
std::int64_t half_of(std::int64_t n) { return (n / 2 + small - 1) / small * small; }

// --- triangular systems ---

// Some right-hand sides at a time are copied to memory that fits the L1 cache, whatever their strides.
template <class T> void solve_block(const Matrix<T>& t, const Matrix<T>& x, bool unit) {
  constexpr std::int64_t width = 4 * static_cast<std::int64_t>(Vec<T>::size), most_rows = small;
  const std::int64_t n = t.rows;
  T triangle[small][small];
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) triangle[i][j] = t(i, j);
  const std::int64_t chunks = (x.columns + width - 1) / width;
  parallel_for(chunks, 32, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) T y[most_rows][width];
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      const std::int64_t first = chunk * width, count = std::min(width, x.columns - first);
      const std::int64_t wide = std::min(width, (count + 7) / 8 * 8);  // padding columns are zeros
      if (x.column == 1) {
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < count; ++j) y[i][j] = x(i, first + j);
      } else {
        for (std::int64_t j = 0; j < count; ++j)
          for (std::int64_t i = 0; i < n; ++i) y[i][j] = x(i, first + j);
      }
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = count; j < wide; ++j) y[i][j] = T(0);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t k = 0; k < i; ++k) {
          const T factor = triangle[i][k];
          for (std::int64_t j = 0; j < wide; ++j) y[i][j] -= factor * y[k][j];
        }
        if (unit) continue;
        const T pivot = triangle[i][i];
        for (std::int64_t j = 0; j < count; ++j) y[i][j] /= pivot;
      }
      if (x.column == 1) {
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < count; ++j) x(i, first + j) = y[i][j];
      } else {
        for (std::int64_t j = 0; j < count; ++j)
          for (std::int64_t i = 0; i < n; ++i) x(i, first + j) = y[i][j];
      }
    }
  });
}
// Few rows and right-hand sides, as for points in space: vectors of compile-time length.
constexpr std::int64_t few = 8;
template <class T, int width> void solve_few(const Matrix<T>& t, const Matrix<T>& x, bool unit) {
  const std::int64_t n = t.rows, columns = width < few ? width : x.columns;
  T y[few][width] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) y[i][j] = x(i, j);
    for (std::int64_t k = 0; k < i; ++k) {
      const T factor = t(i, k);
      for (int j = 0; j < width; ++j) y[i][j] -= factor * y[k][j];
    }
    const T pivot = unit ? T(1) : t(i, i);
    for (int j = 0; j < width; ++j) y[i][j] /= pivot;
    for (std::int64_t j = 0; j < columns; ++j) x(i, j) = y[i][j];
  }
}
template <class T> void solve_lower_of(const Matrix<T>& t, const Matrix<T>& x, bool unit) {
  const std::int64_t n = t.rows;
  if (n == 0 || x.columns == 0) return;
  if (n <= few && x.columns <= few) {
    switch (x.columns) {
      case 1: return solve_few<T, 1>(t, x, unit);
      case 2: return solve_few<T, 2>(t, x, unit);
      case 3: return solve_few<T, 3>(t, x, unit);
      case 4: return solve_few<T, 4>(t, x, unit);
      default: return solve_few<T, few>(t, x, unit);
    }
  }
  if (n <= small) return solve_block(t, x, unit);
  const std::int64_t h = half_of(n);
  const Matrix<T> top = x.part(0, 0, h, x.columns), bottom = x.from(h, 0);
  solve_lower_of(t.part(0, 0, h, h), top, unit);
  add_product(T(-1), t.part(h, 0, n - h, h), top, bottom);
  solve_lower_of(t.from(h, h), bottom, unit);
}

// --- Cholesky ---

// a = L L^T in place. Returns the first row whose pivot is not positive, or -1.
template <class T> std::int64_t cholesky_block(const Matrix<T>& a) {
  const std::int64_t n = a.rows;
  T u[small][small];  // L^T, so that rows are subtracted
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) u[i][j] = a(j, i);
  for (std::int64_t k = 0; k < n; ++k) {
    if (!(u[k][k] > T(0))) return k;
    const T root = std::sqrt(u[k][k]);
    for (std::int64_t j = k; j < n; ++j) u[k][j] /= root;
    for (std::int64_t i = k + 1; i < n; ++i) {
      const T factor = u[k][i];
      for (std::int64_t j = i; j < n; ++j) u[i][j] -= factor * u[k][j];
    }
  }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) a(j, i) = u[i][j];
  return -1;
}
// The lower triangle of c -= a a^T; also updates some parts above it.
template <class T> void subtract_square(const Matrix<T>& a, const Matrix<T>& c) {
  constexpr std::int64_t whole = 128;
  const std::int64_t n = c.rows;
  if (n <= whole) return add_product(T(-1), a, a.transposed(), c);
  const std::int64_t h = half_of(n);
  const Matrix<T> top = a.part(0, 0, h, a.columns), bottom = a.from(h, 0);
  subtract_square(top, c.part(0, 0, h, h));
  add_product(T(-1), bottom, top.transposed(), c.part(h, 0, n - h, h));
  subtract_square(bottom, c.from(h, h));
}
template <class T> std::int64_t cholesky_of(const Matrix<T>& a) {
  const std::int64_t n = a.rows;
  if (n <= small) return cholesky_block(a);
  const std::int64_t h = half_of(n);
  const Matrix<T> below = a.part(h, 0, n - h, h), rest = a.from(h, h);
  if (const std::int64_t wrong = cholesky_of(a.part(0, 0, h, h)); wrong >= 0) return wrong;
  solve_lower_of(a.part(0, 0, h, h), below.transposed(), false);
  subtract_square(below, rest);
  const std::int64_t wrong = cholesky_of(rest);
  return wrong < 0 ? wrong : h + wrong;
}

// --- elimination ---

template <class T> std::int64_t largest(const T* x, std::int64_t n) {
  using V = Vec<T>;
  constexpr std::int64_t width = static_cast<std::int64_t>(V::size);
  V most(T(0));
  std::int64_t i = 0;
  for (; i + width <= n; i += width) most = xsimd::max(most, xsimd::abs(load(x + i)));
  alignas(64) T lanes[width];
  store(lanes, most);
  T found = *std::max_element(lanes, lanes + width);
  for (; i < n; ++i) found = std::max(found, std::abs(x[i]));
  for (i = 0; i < n; ++i)
    if (std::abs(x[i]) == found) return i;
  return 0;  // only NaN
}
template <class T>
void exchange_rows(const Matrix<T>& a, const std::int64_t* pivots, std::int64_t step, std::int64_t count,
                   bool back = false) {
  if (a.columns == 0) return;
  const std::int64_t grain = std::max<std::int64_t>(64, grain_size / std::max<std::int64_t>(1, count));
  parallel_for(a.columns, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t k = back ? count - 1 - i : i, other = pivots[k * step];
      if (other == k || other < 0 || other >= a.rows) continue;
      T *here = &a(k, 0), *there = &a(other, 0);
      for (std::int64_t j = begin; j < end; ++j) std::swap(here[j * a.column], there[j * a.column]);
    }
  });
}
// a [m, n] with m >= n and n small. Its columns are copied to be contiguous.
template <class T> void eliminate_panel(const Matrix<T>& a, std::int64_t* pivots) {
  const std::int64_t m = a.rows, n = a.columns;
  const Memory<T> memory(m * n);
  const Matrix<T> copy{memory.data(), m, n, 1, m};
  assign(copy.transposed(), a.transposed());
  for (std::int64_t k = 0; k < n; ++k) {
    T* const column = &copy(0, k);
    const std::int64_t pivot = k + largest(column + k, m - k);
    pivots[k] = pivot;
    if (pivot != k)
      for (std::int64_t j = 0; j < n; ++j) std::swap(copy(k, j), copy(pivot, j));
    const T divisor = column[k];
    if (divisor != T(0))  // below a pivot of 0 there are only zeros
      for (std::int64_t i = k + 1; i < m; ++i) column[i] /= divisor;
    for (std::int64_t j = k + 1; j < n; ++j) {
      T* const to = &copy(0, j);
      const T factor = to[k];
      for (std::int64_t i = k + 1; i < m; ++i) to[i] -= factor * column[i];
    }
  }
  assign(a, copy);
}
// The same for at most `width` rows, which are vectors of compile-time length.
template <class T, int width> void eliminate_small(const Matrix<T>& a, std::int64_t* pivots) {
  const std::int64_t m = a.rows, n = a.columns;
  alignas(64) T u[width][width] = {}, l[width][width];  // separate: rows of u are modified as a whole
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) u[i][j] = a(i, j);
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t pivot = k;
    T most = std::abs(u[k][k]);
    for (std::int64_t i = k + 1; i < m; ++i) {
      const T size = std::abs(u[i][k]);
      if (size > most || most != most) pivot = size == size ? i : pivot, most = size == size ? size : most;
    }
    pivots[k] = pivot;
    if (pivot != k) {
      std::swap_ranges(u[k], u[k] + width, u[pivot]);
      std::swap_ranges(l[k], l[k] + k, l[pivot]);
    }
    const T divisor = u[k][k];  // below a pivot of 0 there are only zeros
    for (std::int64_t i = k + 1; i < m; ++i) {
      const T factor = divisor == T(0) ? u[i][k] : u[i][k] / divisor;
      for (int j = 0; j < width; ++j) u[i][j] -= factor * u[k][j];
      l[i][k] = factor;
    }
  }
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) a(i, j) = j < i ? l[i][j] : u[i][j];
}
// a [m, n], m >= n. pivots[k]: the row, counted from 0, that row k was swapped with.
template <class T> void eliminate(const Matrix<T>& a, std::int64_t* pivots) {
  constexpr std::int64_t panel = 16;
  const std::int64_t m = a.rows, n = a.columns;
  if (m <= 4) return eliminate_small<T, 4>(a, pivots);
  if (m <= 8) return eliminate_small<T, 8>(a, pivots);
  if (m <= panel) return eliminate_small<T, panel>(a, pivots);
  if (n <= panel) return eliminate_panel(a, pivots);
  const std::int64_t h = std::max(panel, n / 2 / panel * panel);
  const Matrix<T> left = a.part(0, 0, m, h), right = a.part(0, h, m, n - h), below = a.from(h, h);
  eliminate(left, pivots);
  exchange_rows(right, pivots, 1, h);
  solve_lower_of(a.part(0, 0, h, h), right.part(0, 0, h, n - h), true);
  add_product(T(-1), a.part(h, 0, m - h, h), right.part(0, 0, h, n - h), below);
  eliminate(below, pivots + h);
  exchange_rows(a.part(h, 0, m - h, h), pivots + h, 1, n - h);
  for (std::int64_t k = h; k < n; ++k) pivots[k] += h;
}

double cube(std::int64_t n) { return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

}  // namespace

void solve_lower(const Matrix<float>& t, const Matrix<float>& x, bool unit) { solve_lower_of(t, x, unit); }
void solve_lower(const Matrix<double>& t, const Matrix<double>& x, bool unit) { solve_lower_of(t, x, unit); }

void dense_cholesky(const View& a, const View& wrong) {
  const std::int64_t n = a.size(1);
  visit_precise(a.dtype, [&]<class T> {
    for_matrices(a.size(0), cube(n) / 3, [&](std::int64_t item) {
      const Matrix<T> m = matrix_of<T>(a, item);
      wrong.as<std::int64_t>()[item] = cholesky_of(m);
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = i + 1; j < n; ++j) m(i, j) = T(0);
    });
  });
}
void dense_lu(const View& a, const View& pivots) {
  const std::int64_t n = a.size(1);
  visit_precise(a.dtype, [&]<class T> {
    for_matrices(a.size(0), cube(n) * 2 / 3,
                 [&](std::int64_t item) { eliminate(matrix_of<T>(a, item), pivots.as<std::int64_t>() + item * n); });
  });
}
void dense_exchange(const View& x, const View& pivots, bool back) {
  const std::int64_t n = x.size(1);
  visit_word(x.dtype, [&]<class Word> {
    for_matrices(x.size(0), static_cast<double>(n * x.size(2)), [&](std::int64_t item) {
      const std::int64_t* given = pivots.as<const std::int64_t>() + item * pivots.strides[0];
      exchange_rows(matrix_of<Word>(x, item), given, pivots.strides[1], n, back);
    });
  });
}
void dense_solve(const View& t, const View& x, Triangle triangle) {
  const double work =
      cube(t.size(1)) / static_cast<double>(std::max<std::int64_t>(1, t.size(1))) * static_cast<double>(x.size(2));
  visit_precise(x.dtype, [&]<class T> {
    for_matrices(x.size(0), work, [&](std::int64_t item) {
      const Matrix<T> a = matrix_of<T>(t, item), b = matrix_of<T>(x, item);
      if (a.rows == 0 || b.columns == 0) return;
      const bool unit = triangle == Triangle::unit_lower || triangle == Triangle::unit_upper;
      if (triangle == Triangle::upper || triangle == Triangle::unit_upper) solve_upper(a, b, unit);
      else solve_lower_of(a, b, unit);
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
