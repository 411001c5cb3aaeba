// Householder reflections H = 1 - tau v v^T, single and as blocks H1 H2 ... Hk = 1 - V T V^T (Schreiber and Van Loan,
// "A storage-efficient WY representation for products of Householder transformations", 1989).
#pragma once

#include <cmath>
#include <limits>

#include "core/cpu/matrix.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

constexpr std::int64_t reflection_block = 32;

// Dot product of contiguous vectors, and y += alpha x; on the calling thread.
template <class T> T dot(const T* x, const T* y, std::int64_t n) {
  constexpr std::int64_t lanes = 64 / sizeof(T) * 2;
  if (n < lanes / 2) {
    T sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
  }
  T sum[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::int64_t k = 0; k < lanes; ++k) sum[k] += x[i + k] * y[i + k];
  for (std::int64_t k = 0; i + k < n; ++k) sum[k] += x[i + k] * y[i + k];
  for (std::int64_t step = lanes / 2; step > 0; step /= 2)
    for (std::int64_t k = 0; k < step; ++k) sum[k] += sum[k + step];
  return sum[0];
}
template <class T> void add_scaled(T* y, T alpha, const T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += alpha * x[i];
}
// The Euclidean norm, also if squares are out of T's range.
template <class T> T norm_of(const T* x, std::int64_t n) {
  const T plain = std::sqrt(dot(x, x, n));
  constexpr T low = sizeof(T) == 8 ? T(1e-140) : T(1e-15), high = sizeof(T) == 8 ? T(1e140) : T(1e15);
  if ((plain > low && plain < high) || plain != plain) return plain;
  T most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
  if (most == T(0) || !(most < std::numeric_limits<T>::infinity())) return most;
  T sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += (x[i] / most) * (x[i] / most);
  return most * std::sqrt(sum);
}

// x [n], n >= 1, becomes v with v[0] = 1. Returns tau; `length` is the first element of H x, with LAPACK's sign. If
// x[1:] is zero, tau is 0.
template <class T> T make_reflection(T* x, std::int64_t n, T& length) {
  const T first = x[0], below = norm_of(x + 1, n - 1);
  x[0] = T(1);
  length = first;
  if (below == T(0)) return T(0);
  const T size = std::hypot(first, below);
  length = first < T(0) ? size : -size;
  const T divisor = first - length;
  for (std::int64_t i = 1; i < n; ++i) x[i] /= divisor;
  return (length - first) / length;
}

// A block: V [m, k] in its own memory, column-major, with its ones and zeros stored; T [k, k].
template <class T> struct Reflections {
  Reflections(std::int64_t m, std::int64_t k) : memory(m * k), v{memory.data(), m, k, 1, m}, t(k, k), tau(k) {}
  // Computes T from v and tau.
  void join() {
    const std::int64_t k = v.columns;
    OwnMatrix<T> inner(k, k);
    fill<T>(inner, T(0));
    add_product(T(1), v.transposed(), v, inner);
    fill<T>(t, T(0));
    for (std::int64_t j = 0; j < k; ++j) {
      t(j, j) = tau[j];
      for (std::int64_t i = 0; i < j; ++i) {
        T sum = 0;
        for (std::int64_t p = i; p < j; ++p) sum += t(i, p) * inner(p, j);
        t(i, j) = -tau[j] * sum;
      }
    }
  }
  // c := (1 - V T V^T) c; with other_order T^T, the reflections in reverse order.
  void apply(const Matrix<T>& c, bool other_order) const {
    const std::int64_t k = v.columns;
    if (c.columns == 0 || k == 0) return;
    OwnMatrix<T> inner(k, c.columns), turned(k, c.columns);
    fill<T>(inner, T(0));
    fill<T>(turned, T(0));
    add_product(T(1), v.transposed(), c, inner);
    const Matrix<T>& triangle = t;
    add_product(T(1), other_order ? triangle.transposed() : triangle, inner, turned);
    add_product(T(-1), v, turned, c);
  }

  Memory<T> memory;
  Matrix<T> v;
  OwnMatrix<T> t;
  Memory<T> tau;
};

// q := (1 - tau v v^T) q for v [rows of q] and a small q.
template <class T> void reflect(const Matrix<T>& q, const T* v, T tau, T* inner) {
  if (q.column == 1) {
    std::fill_n(inner, q.columns, T(0));
    for (std::int64_t i = 0; i < q.rows; ++i) add_scaled(inner, v[i], &q(i, 0), q.columns);
    for (std::int64_t i = 0; i < q.rows; ++i) add_scaled(&q(i, 0), -tau * v[i], inner, q.columns);
    return;
  }
  for (std::int64_t j = 0; j < q.columns; ++j) {
    T sum = 0;
    for (std::int64_t i = 0; i < q.rows; ++i) sum += v[i] * q(i, j);
    for (std::int64_t i = 0; i < q.rows; ++i) q(i, j) -= tau * sum * v[i];
  }
}

// q := the product of the reflections, times q, which may be known to be the identity. Reflection j has its 1 in row j
// + shift, the rest of its vector below that in column j of v.
template <class T>
void multiply_reflections(const Matrix<T>& q, const Matrix<T>& v, const T* tau, std::int64_t count, std::int64_t shift,
                          bool is_identity) {
  constexpr std::int64_t small = 16;  // rows and columns for which a block does not pay for computing T
  if (q.rows <= small && q.columns <= small) {
    T reflection[small], inner[small];
    for (std::int64_t j = count - 1; j >= 0; --j) {
      const std::int64_t top = j + shift, first = is_identity ? top : 0;  // as below
      reflection[0] = T(1);
      for (std::int64_t i = top + 1; i < q.rows; ++i) reflection[i - top] = v(i, j);
      reflect(q.from(top, first), reflection, tau[j], inner);
    }
    return;
  }
  for (std::int64_t k = (count - 1) / reflection_block * reflection_block; k >= 0 && count > 0; k -= reflection_block) {
    const std::int64_t width = std::min(reflection_block, count - k), m = q.rows - k - shift;
    Reflections<T> block(m, width);
    assign(block.v, v.part(k + shift, k, m, width));
    for (std::int64_t j = 0; j < width; ++j) {
      for (std::int64_t i = 0; i < j; ++i) block.v(i, j) = T(0);
      block.v(j, j) = T(1);
      block.tau[j] = tau[k + j];
    }
    block.join();
    const std::int64_t first = is_identity ? k + shift : 0;  // earlier columns are zero in these rows
    if (first < q.columns) block.apply(q.from(k + shift, first), false);
  }
}

// a [m, n] := R and the reflection vectors below it; tau [min(m, n)].
template <class T> void reflect_to_triangle(const Matrix<T>& a, T* tau) {
  const std::int64_t m = a.rows, n = a.columns, count = std::min(m, n);
  for (std::int64_t k = 0; k < count; k += reflection_block) {
    const std::int64_t width = std::min(reflection_block, count - k), height = m - k;
    Reflections<T> block(height, width);
    assign(block.v, a.part(k, k, height, width));
    for (std::int64_t j = 0; j < width; ++j) {
      T* const v = &block.v(j, j);
      T length;
      block.tau[j] = make_reflection(v, height - j, length);
      for (std::int64_t i = j + 1; i < width; ++i) {
        T* const column = &block.v(j, i);
        add_scaled(column, -block.tau[j] * dot(v, column, height - j), v, height - j);
      }
      v[0] = length;
      tau[k + j] = block.tau[j];
    }
    assign(a.part(k, k, height, width), block.v);
    if (k + width == n) return;
    for (std::int64_t j = 0; j < width; ++j) {
      for (std::int64_t i = 0; i < j; ++i) block.v(i, j) = T(0);
      block.v(j, j) = T(1);
    }
    block.join();
    block.apply(a.from(k, k + width), true);
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
