// Plane (Givens) rotations of adjacent rows, produced by the iterations for eigenvalues and singular values: collected,
// then applied to a few columns at a time, which stay in cache meanwhile.
#pragma once

#include <cmath>
#include <vector>

#include "core/cpu/matrix.h"
#include "core/cpu/simd.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// c and s with c f + s g = r and c g - s f = 0.
struct Rotation {
  double c, s, r;
};
inline Rotation rotation_to(double f, double g) {
  if (g == 0.0) return {1.0, 0.0, f};
  if (f == 0.0) return {0.0, 1.0, g};
  const double squares = f * f + g * g;
  const double r = squares > 1e-280 && squares < 1e280 ? std::sqrt(squares) : std::hypot(f, g);
  return {f / r, g / r, r};
}

// Rows of whole vectors: the number of columns is rounded up.
template <class T> class RotatedRows {
 public:
  static constexpr std::int64_t width = static_cast<std::int64_t>(Vec<T>::size);

  RotatedRows(std::int64_t rows, std::int64_t columns)
      : rows_(rows, (columns + width - 1) / width * width), columns_(columns) {
    fill<T>(rows_, T(0));
  }
  Matrix<T> matrix() const { return rows_.part(0, 0, rows_.rows, columns_); }

  // A sweep begins at `row` and continues with adjacent rows in direction 1 or -1. Its kth rotation replaces p, row + k
  // * direction, and q, the next row: by c p + s q and c q - s p.
  void begin(std::int64_t row, std::int64_t direction) {
    if (static_cast<std::int64_t>(factors_.size()) >= 64 * rows_.rows) flush();
    sweeps_.push_back({row, direction, factors_.size()});
  }
  void add(double c, double s) {
    factors_.push_back(static_cast<T>(c));
    factors_.push_back(static_cast<T>(s));
  }
  void flush() {
    constexpr std::int64_t many = 4 * width;
    const std::int64_t chunks = (rows_.columns + many - 1) / many;
    const auto work = static_cast<std::int64_t>(factors_.size()) * many;
    parallel_for(chunks, std::max<std::int64_t>(1, (64 << 10) / (1 + work)), [&](std::int64_t begin, std::int64_t end) {
      // Copied together: with a stride of whole rows they would map to few cache sets.
      const Memory<T> memory(rows_.rows * many);
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        const std::int64_t first = chunk * many, count = std::min(many, rows_.columns - first);
        const Matrix<T> there = rows_.part(0, first, rows_.rows, count);
        const Matrix<T> here{memory.data(), rows_.rows, count, count, 1};
        for (std::int64_t i = 0; i < here.rows; ++i) std::copy_n(&there(i, 0), count, &here(i, 0));
        if (count == 4 * width) turn<4>(here);
        else if (count == 3 * width) turn<3>(here);
        else if (count == 2 * width) turn<2>(here);
        else turn<1>(here);
        for (std::int64_t i = 0; i < here.rows; ++i) std::copy_n(&here(i, 0), count, &there(i, 0));
      }
    });
    sweeps_.clear();
    factors_.clear();
  }

 private:
  struct Sweep {
    std::int64_t row, direction;
    std::size_t first;  // of its factors in the list
  };

  // Applies all sweeps, over rows of so many vectors.
  template <int Vectors> void turn(const Matrix<T>& rows) const {
    using V = Vec<T>;
    for (std::size_t i = 0; i < sweeps_.size(); ++i) {
      const Sweep& sweep = sweeps_[i];
      const std::size_t last = i + 1 < sweeps_.size() ? sweeps_[i + 1].first : factors_.size();
      const std::int64_t step = sweep.direction * Vectors * width;
      const T* factor = factors_.data() + sweep.first;
      T* row = &rows(sweep.row, 0);
      V carried[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) carried[v] = load(row + v * width);
      for (std::size_t k = sweep.first; k < last; k += 2, row += step, factor += 2) {
        const V c(factor[0]), s(factor[1]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) {
          const V next = load(row + step + v * width);
          store(row + v * width, xsimd::fma(c, carried[v], s * next));
          carried[v] = xsimd::fnma(s, carried[v], c * next);
        }
      }
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) store(row + v * width, carried[v]);
    }
  }

  OwnMatrix<T> rows_;
  std::int64_t columns_;
  std::vector<Sweep> sweeps_;
  std::vector<T> factors_;
};

// A power of two that scales the largest element of m to near 1 if squares would be out of T's range, else 1; 0 if an
// element is NaN or infinite.
template <class T> T good_scale(const Matrix<T>& m) {
  T most = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < m.rows; ++i) {
    T row = 0;
    for (std::int64_t j = 0; j < m.columns; ++j) {
      const T x = std::abs(m(i, j));
      row = x > row ? x : row;
      finite = finite && x <= std::numeric_limits<T>::max();
    }
    most = std::max(most, row);
  }
  if (!finite) return T(0);
  constexpr T low = sizeof(T) == 8 ? T(1e-100) : T(1e-10), high = sizeof(T) == 8 ? T(1e100) : T(1e10);
  if (most == T(0) || (most > low && most < high)) return T(1);
  constexpr int largest = sizeof(T) == 8 ? 1000 : 120;
  return static_cast<T>(std::ldexp(1.0, std::clamp(-std::ilogb(most), -largest, largest)));
}
template <class T> void multiply_by(const Matrix<T>& m, T factor) {
  if (factor == T(1)) return;
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.columns; ++j) m(i, j) *= factor;
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
