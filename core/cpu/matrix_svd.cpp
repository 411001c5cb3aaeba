// Singular values and vectors: a tall matrix is reduced to a square one by QR, that to an upper bidiagonal one by
// reflections from both sides, a block at a time (Dongarra, Sorensen and Hammarling, 1989), and that to a diagonal one
// by implicit QR steps (Golub and Kahan, 1965), with zero shift if the matrix is singular up to rounding (Demmel and
// Kahan, "Accurate singular values of bidiagonal matrices", 1990). The iteration is in f64.
#include <limits>
#include <numeric>

#include "core/cpu/matrix_reflect.h"
#include "core/cpu/matrix_rotate.h"
#include "core/decompose.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// a [m, n] with m >= n: reflections from the left are stored below the diagonal, those from the right to the right of
// the superdiagonal. d [n], e [n - 1].
template <class T> void make_bidiagonal(const Matrix<T>& a, double* d, double* e, T* tau_left, T* tau_right) {
  constexpr std::int64_t block = reflection_block;
  const std::int64_t m = a.rows, n = a.columns;
  // V, X and Y, U side by side: the update -V Y^T - X U^T of the matrix is deferred until a block is complete.
  const Memory<T> left_memory(2 * block * m), right_memory(2 * block * n), few(2 * block);
  const Matrix<T> left{left_memory.data(), m, 2 * block, 1, m}, right{right_memory.data(), n, 2 * block, 1, n};
  T *const few_1 = few.data(), *const few_2 = few.data() + block;
  // y -= outer (inner^T x)
  const auto subtract = [&](const Matrix<T>& outer, const Matrix<T>& inner, const T* x, T* y) {
    std::fill_n(few_1, inner.columns, T(0));
    add_product(T(1), inner.transposed(), x, few_1);
    add_product(T(-1), outer, few_1, y);
  };
  for (std::int64_t k = 0; k < n; k += block) {
    const std::int64_t width = std::min(block, n - k);
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t c = k + j, height = m - c, beside = n - c - 1, below = height - 1;
      T* const v = &left(c, j);
      for (std::int64_t i = 0; i < height; ++i) v[i] = a(c + i, c);
      for (std::int64_t i = 0; i < j; ++i) few_1[i] = right(c, i), few_2[i] = right(c, block + i);
      add_product(T(-1), left.part(c, 0, height, j), few_1, v);
      add_product(T(-1), left.part(c, block, height, j), few_2, v);
      T length;
      tau_left[c] = make_reflection(v, height, length);
      d[c] = static_cast<double>(length);
      for (std::int64_t i = 1; i < height; ++i) a(c + i, c) = v[i];
      if (beside == 0) return;
      T* const y = &right(c + 1, j);
      std::fill_n(y, beside, T(0));
      if (tau_left[c] != T(0)) {
        add_product(T(1), a.part(c, c + 1, height, beside).transposed(), v, y);
        subtract(right.part(c + 1, 0, beside, j), left.part(c, 0, height, j), v, y);
        subtract(right.part(c + 1, block, beside, j), left.part(c, block, height, j), v, y);
        for (std::int64_t i = 0; i < beside; ++i) y[i] *= tau_left[c];
      }
      T* const u = &right(c + 1, block + j);
      std::copy_n(&a(c, c + 1), beside, u);
      for (std::int64_t i = 0; i <= j; ++i) few_1[i] = left(c, i);
      for (std::int64_t i = 0; i < j; ++i) few_2[i] = left(c, block + i);
      add_product(T(-1), right.part(c + 1, 0, beside, j + 1), few_1, u);
      add_product(T(-1), right.part(c + 1, block, beside, j), few_2, u);
      tau_right[c] = make_reflection(u, beside, length);
      e[c] = static_cast<double>(length);
      std::copy_n(u, beside, &a(c, c + 1));
      if (below == 0) continue;
      T* const x = &left(c + 1, block + j);
      std::fill_n(x, below, T(0));
      if (tau_right[c] == T(0)) continue;
      add_product(T(1), a.from(c + 1, c + 1), u, x);
      subtract(left.part(c + 1, 0, below, j + 1), right.part(c + 1, 0, beside, j + 1), u, x);
      subtract(left.part(c + 1, block, below, j), right.part(c + 1, block, beside, j), u, x);
      for (std::int64_t i = 0; i < below; ++i) x[i] *= tau_right[c];
    }
    const std::int64_t next = k + width;
    if (next >= n) return;
    add_product(T(-1), left.from(next, 0), right.from(next, 0).transposed(), a.from(next, next));
  }
}

// Part of an upper bidiagonal matrix; from the other end it is a lower one, i.e. its transpose with left and right
// exchanged.
template <class T> struct Chase {
  double *d, *e;
  std::int64_t first, last;
  bool from_last;
  RotatedRows<T>*left, *right;

  std::int64_t length() const { return last - first; }
  double& diagonal(std::int64_t i) const { return d[from_last ? last - i : first + i]; }
  double& beside(std::int64_t i) const { return e[from_last ? last - 1 - i : first + i]; }
  void begin() const {
    for (RotatedRows<T>* rows : {left, right})
      if (rows) rows->begin(from_last ? last : first, from_last ? -1 : 1);
  }
  void turn(const Rotation& of_columns, const Rotation& of_rows) const {
    if (!left) return;
    (from_last ? left : right)->add(of_columns.c, of_columns.s);
    (from_last ? right : left)->add(of_rows.c, of_rows.s);
  }
};

template <class T> void step_without_shift(const Chase<T>& m) {
  const std::int64_t length = m.length();
  Rotation columns{1.0, 0.0, 0.0}, rows{1.0, 0.0, 0.0};
  m.begin();
  for (std::int64_t i = 0; i < length; ++i) {
    columns = rotation_to(m.diagonal(i) * columns.c, m.beside(i));
    if (i > 0) m.beside(i - 1) = rows.s * columns.r;
    rows = rotation_to(rows.c * columns.r, m.diagonal(i + 1) * columns.s);
    m.diagonal(i) = rows.r;
    m.turn(columns, rows);
  }
  const double last = m.diagonal(length) * columns.c;
  m.beside(length - 1) = last * rows.s;
  m.diagonal(length) = last * rows.c;
}
template <class T> void step_with_shift(const Chase<T>& m, double shift) {
  const std::int64_t length = m.length();
  const double start = m.diagonal(0);
  double f = (std::abs(start) - shift) * (std::copysign(1.0, start) + shift / start), g = m.beside(0);
  m.begin();
  for (std::int64_t i = 0; i < length; ++i) {
    double &here = m.diagonal(i), &beside = m.beside(i), &next = m.diagonal(i + 1);
    const Rotation columns = rotation_to(f, g);
    if (i > 0) m.beside(i - 1) = columns.r;
    f = columns.c * here + columns.s * beside;
    beside = columns.c * beside - columns.s * here;
    g = columns.s * next;
    next = columns.c * next;
    const Rotation rows = rotation_to(f, g);
    here = rows.r;
    f = rows.c * beside + rows.s * next;
    next = rows.c * next - rows.s * beside;
    if (i + 1 < length) {
      double& after = m.beside(i + 1);
      g = rows.s * after;
      after = rows.c * after;
    }
    m.turn(columns, rows);
  }
  m.beside(length - 1) = f;
}

// The smaller singular value of [f g; 0 h].
double smaller_value(double f, double g, double h) {
  f = std::abs(f), g = std::abs(g), h = std::abs(h);
  const double low = std::min(f, h), high = std::max(f, h);
  if (low == 0.0) return 0.0;
  const double most = std::max(high, g), a = f / most, b = g / most, c = h / most;
  // Of the sum and the difference of both values squared, (f + h)^2 + g^2 and (f - h)^2 + g^2.
  const double both = 0.5 * (std::hypot(a + c, b) + std::hypot(a - c, b));  // the larger value
  return low * (high / most) / both;
}

// d := the singular values, with signs; false if the iteration does not converge. Elements as small as the rounding
// errors of T count as 0.
template <class T>
bool make_diagonal(std::int64_t n, double* d, double* e, RotatedRows<T>* left, RotatedRows<T>* right) {
  double size = 0;
  for (std::int64_t i = 0; i < n; ++i) size = std::max({size, std::abs(d[i]), i + 1 < n ? std::abs(e[i]) : 0.0});
  const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2, tiny = 0.05 * epsilon * size;
  // For equal values each step introduces some rounding errors of its own.
  const double enough = std::max(epsilon, 16 * 0x1p-53);
  std::int64_t steps = 30 * n, top = -1, bottom = -1;  // the part for which the direction was chosen
  bool from_last = false;
  for (std::int64_t last = n - 1; last > 0;) {
    const auto negligible = [&](std::int64_t i) {
      return std::abs(e[i]) <= std::max(tiny, enough * std::min(std::abs(d[i]), std::abs(d[i + 1])));
    };
    std::int64_t first = last;
    while (first > 0 && !negligible(first - 1)) --first;
    if (first == last) {
      e[--last] = 0.0;
      continue;
    }
    if (first > 0) e[first - 1] = 0.0;
    if (steps-- == 0) return false;
    if (first > bottom || last < top) from_last = std::abs(d[first]) < std::abs(d[last]);  // towards the smaller end
    top = first, bottom = last;
    const Chase<T> m{d, e, first, last, from_last, left, right};
    const std::int64_t length = m.length();
    // A bound for the smallest value of this part. If it is 0 up to rounding, a shift would only add errors.
    double bound = std::abs(m.diagonal(0)), least = bound;
    for (std::int64_t i = 0; i < length && bound > 0.0; ++i) {
      bound = std::abs(m.diagonal(i + 1)) * (bound / (bound + std::abs(m.beside(i))));
      least = std::min(least, bound);
    }
    double shift = 0.0;
    if (least > epsilon * size) shift = smaller_value(m.diagonal(length - 1), m.beside(length - 1), m.diagonal(length));
    const double start = std::abs(m.diagonal(0));
    if (start == 0.0 || (shift / start) * (shift / start) < std::numeric_limits<double>::epsilon()) shift = 0.0;
    if (shift == 0.0) step_without_shift(m);
    else step_with_shift(m, shift);
  }
  for (RotatedRows<T>* rows : {left, right})
    if (rows) rows->flush();
  return true;
}

template <class T> bool decompose(const Matrix<T>& given, double* values, const Matrix<T>& u_t, const Matrix<T>& v_t) {
  const std::int64_t m = given.rows, n = given.columns;
  const T scale = good_scale(given);
  const bool with_vectors = u_t.data != nullptr, tall = m > n + n / 2;
  if (scale == T(0)) {
    std::fill_n(values, n, std::numeric_limits<double>::quiet_NaN());
    for (const Matrix<T>& vectors : {u_t, v_t})
      if (with_vectors) fill(vectors, std::numeric_limits<T>::quiet_NaN());
    return true;
  }
  multiply_by(given, scale);
  const Memory<T> tau(3 * n);
  OwnMatrix<T> triangle(tall ? n : 0, tall ? n : 0);
  Matrix<T> a = given;
  if (tall) {
    reflect_to_triangle(given, tau.data());
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) triangle(i, j) = j < i ? T(0) : given(i, j);
    a = triangle;
  }
  const Memory<double> d(n), e(n);
  T *const tau_left = tau.data() + n, *const tau_right = tau.data() + 2 * n;
  make_bidiagonal(a, d.data(), e.data(), tau_left, tau_right);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto sort = [&] {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t i, std::int64_t j) { return std::abs(d[i]) > std::abs(d[j]); });
  };
  bool good;
  if (with_vectors) {
    RotatedRows<T> left(n, a.rows), right(n, n);
    const Matrix<T> u = left.matrix(), v = right.matrix();
    set_identity(u);
    set_identity(v);
    multiply_reflections(u.transposed(), a, tau_left, n, 0, true);
    multiply_reflections(v.transposed(), a.transposed(), tau_right, n - 1, 1, true);
    good = make_diagonal(n, d.data(), e.data(), &left, &right);
    sort();
    for (std::int64_t i = 0; good && i < n; ++i) {
      const std::int64_t from = order[static_cast<std::size_t>(i)];
      assign(u_t.part(i, 0, 1, a.rows), u.part(from, 0, 1, a.rows));
      if (tall) fill(u_t.part(i, n, 1, m - n), T(0));
      const T sign = d[from] < 0.0 ? T(-1) : T(1);
      for (std::int64_t j = 0; j < n; ++j) v_t(i, j) = sign * v(from, j);
    }
    if (tall && good) multiply_reflections(u_t.transposed(), given, tau.data(), n, 0, false);
  } else {
    good = make_diagonal<T>(n, d.data(), e.data(), nullptr, nullptr);
    sort();
  }
  for (std::int64_t i = 0; i < n; ++i)
    values[i] = std::abs(d[order[static_cast<std::size_t>(i)]]) / static_cast<double>(scale);
  return good;
}

}  // namespace

void dense_svd(const View& a, const View& values, const View& u_t, const View& v_t, const View& good) {
  const std::int64_t m = a.size(1), n = a.size(2);
  if (n == 0) return std::fill_n(good.as<bool>(), a.size(0), true), void();
  const double work =
      4.0 * (static_cast<double>(m) + 5.0 * static_cast<double>(n)) * static_cast<double>(n) * static_cast<double>(n);
  visit_precise(a.dtype, [&]<class T> {
    for_matrices(a.size(0), work, [&](std::int64_t item) {
      good.as<bool>()[item] =
          decompose(matrix_of<T>(a, item), values.as<double>() + item * n, u_t ? matrix_of<T>(u_t, item) : Matrix<T>(),
                    v_t ? matrix_of<T>(v_t, item) : Matrix<T>());
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
