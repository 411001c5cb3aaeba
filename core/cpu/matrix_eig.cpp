// Eigenvalues and eigenvectors of general real matrices: balancing of row and column norms (Parlett and Reinsch, 1969),
// reduction to Hessenberg form by reflections, and implicit double-shift QR steps (Francis, 1961; Golub and Van Loan,
// Matrix Computations, 7.5) to real Schur form, with 1 x 1 and 2 x 2 blocks on the diagonal; eigenvectors of that are
// found by back substitution. In f64, whatever the matrix's dtype.
#include <complex>
#include <limits>

#include "core/cpu/matrix_reflect.h"
#include "core/cpu/matrix_rotate.h"
#include "core/decompose.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using Square = OwnMatrix<double>;
using Complex = std::complex<double>;
constexpr double epsilon = std::numeric_limits<double>::epsilon();

double* row_of(const Matrix<double>& m, std::int64_t i) { return &m(i, 0); }

// h := d^-1 h d, with powers of two in d [n], so that rows and columns have about the same norm.
void balance(const Matrix<double>& h, double* d) {
  const std::int64_t n = h.rows;
  std::fill_n(d, n, 1.0);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::int64_t i = 0; i < n; ++i) {
      double row = 0, column = 0;
      for (std::int64_t j = 0; j < n; ++j)
        if (j != i) row += std::abs(h(i, j)), column += std::abs(h(j, i));
      if (row == 0 || column == 0) continue;
      const int step = static_cast<int>(std::lround(0.5 * std::log2(row / column)));
      const double f = std::ldexp(1.0, step);
      if (step == 0 || column * f + row / f > 0.95 * (column + row)) continue;
      changed = true;
      d[i] *= f;
      for (std::int64_t j = 0; j < n; ++j) h(i, j) /= f;
      for (std::int64_t j = 0; j < n; ++j) h(j, i) *= f;
    }
  }
}

// m := m (1 - tau v v^T) for the columns from `first` on, v [count].
void reflect_columns(const Matrix<double>& m, std::int64_t first, const double* v, std::int64_t count, double tau) {
  for (std::int64_t i = 0; i < m.rows; ++i) {
    double* const x = row_of(m, i) + first;
    add_scaled(x, -tau * dot(x, v, count), v, count);
  }
}
// h := q^T h q with zeros below the first subdiagonal; q := that orthogonal matrix, if wanted.
void make_hessenberg(const Matrix<double>& h, const Matrix<double>* q) {
  const std::int64_t n = h.rows;
  if (q) set_identity(*q);
  const Memory<double> v(n), sums(n);
  for (std::int64_t k = 0; k + 2 < n; ++k) {
    const std::int64_t first = k + 1, count = n - first;
    for (std::int64_t i = 0; i < count; ++i) v[i] = h(first + i, k);
    double length;
    const double tau = make_reflection(v.data(), count, length);
    if (tau == 0.0) continue;
    std::fill_n(sums.data(), n, 0.0);  // v^T h
    for (std::int64_t i = 0; i < count; ++i) add_scaled(sums.data() + k, v[i], row_of(h, first + i) + k, n - k);
    for (std::int64_t i = 0; i < count; ++i) add_scaled(row_of(h, first + i) + k, -tau * v[i], sums.data() + k, n - k);
    h(first, k) = length;
    for (std::int64_t i = first + 1; i < n; ++i) h(i, k) = 0.0;
    reflect_columns(h, first, v.data(), count, tau);
    if (q) reflect_columns(*q, first, v.data(), count, tau);
  }
}

// Reduces a real Hessenberg matrix to a triangle with blocks of one or two on its diagonal.
class Schur {
 public:
  // q is multiplied by the transformations of h; null: only eigenvalues are wanted, and h is updated only in the active
  // part.
  Schur(const Matrix<double>& h, const Matrix<double>* q) : h_(h), q_(q), n_(h.rows) {
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = std::max<std::int64_t>(i - 1, 0); j < n_; ++j) norm_ = std::max(norm_, std::abs(h(i, j)));
  }

  // values [n]; false if the iteration does not converge.
  bool run(Complex* values) {
    std::int64_t steps = 0;
    for (std::int64_t last = n_ - 1; last >= 0;) {
      const std::int64_t first = start_of_block(last);
      if (first == last) {
        values[last] = h_(last, last);
        --last, steps = 0;
      } else if (first == last - 1) {
        split_pair(first, values);
        last -= 2, steps = 0;
      } else {
        if (++steps > 60) return false;
        step(first, last, steps);
      }
    }
    return true;
  }

 private:
  std::int64_t start_of_block(std::int64_t last) {
    for (std::int64_t i = last; i > 0; --i) {
      double beside = std::abs(h_(i - 1, i - 1)) + std::abs(h_(i, i));
      if (beside == 0.0) beside = norm_;
      if (std::abs(h_(i, i - 1)) <= epsilon * beside) {
        h_(i, i - 1) = 0.0;
        return i;
      }
    }
    return 0;
  }
  std::int64_t begin_row(std::int64_t first) const { return q_ ? 0 : first; }
  std::int64_t end_column(std::int64_t last) const { return q_ ? n_ : last + 1; }

  // The 2 x 2 block at k: its eigenvalues; if they are real, a rotation makes it triangular.
  void split_pair(std::int64_t k, Complex* values) {
    const double a = h_(k, k), b = h_(k, k + 1), c = h_(k + 1, k), d = h_(k + 1, k + 1);
    const double half = 0.5 * (a - d), square = half * half + b * c, root = std::sqrt(std::abs(square));
    if (square < 0) {
      values[k] = {d + half, root};
      values[k + 1] = {d + half, -root};
      return;
    }
    const double z = half + std::copysign(root, half);
    const double larger = d + z, other = z != 0.0 ? d - b * c / z : d;
    const double length = std::hypot(c, z), cosine = z / length, sine = c / length;  // (z, c) is its eigenvector
    for (std::int64_t j = k; j < end_column(k + 1); ++j) {
      const double x = h_(k, j), y = h_(k + 1, j);
      h_(k, j) = cosine * x + sine * y;
      h_(k + 1, j) = cosine * y - sine * x;
    }
    const auto turn = [&](const Matrix<double>& m, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double x = m(i, k), y = m(i, k + 1);
        m(i, k) = cosine * x + sine * y;
        m(i, k + 1) = cosine * y - sine * x;
      }
    };
    turn(h_, begin_row(k), k + 2);
    if (q_) turn(*q_, 0, n_);
    h_(k, k) = larger, h_(k + 1, k + 1) = other, h_(k + 1, k) = 0.0;
    values[k] = larger, values[k + 1] = other;
  }

  // One double step in rows first ... last: the shifts are the eigenvalues of the last two rows, and occasionally
  // others (exceptional shifts), for matrices on which the iteration would cycle.
  void step(std::int64_t first, std::int64_t last, std::int64_t count) {
    double x = h_(last, last), y = h_(last - 1, last - 1), w = h_(last, last - 1) * h_(last - 1, last);
    if (count % 10 == 0) {
      const double s = std::abs(h_(last, last - 1)) + std::abs(h_(last - 1, last - 2));
      x = y = h_(last, last) + 0.75 * s;
      w = -0.4375 * s * s;
    }
    // The first column of (h - shift)(h - other shift), at the lowest row from which a step can start.
    std::int64_t m = last - 2;
    double v[3];
    for (;; --m) {
      const double z = h_(m, m), r = x - z, s = y - z;
      v[0] = (r * s - w) / h_(m + 1, m) + h_(m, m + 1);
      v[1] = h_(m + 1, m + 1) - z - r - s;
      v[2] = h_(m + 2, m + 1);
      const double size = std::abs(v[0]) + std::abs(v[1]) + std::abs(v[2]);
      for (double& e : v) e /= size;
      if (m == first) break;
      const double beside = std::abs(h_(m - 1, m - 1)) + std::abs(z) + std::abs(h_(m + 1, m + 1));
      if (std::abs(h_(m, m - 1)) * (std::abs(v[1]) + std::abs(v[2])) <= epsilon * std::abs(v[0]) * beside) break;
    }
    for (std::int64_t i = m + 2; i <= last; ++i) {
      h_(i, i - 2) = 0.0;
      if (i > m + 2) h_(i, i - 3) = 0.0;
    }
    for (std::int64_t k = m; k < last; ++k) {
      const std::int64_t width = k + 2 <= last ? 3 : 2;
      if (k > m) { v[0] = h_(k, k - 1), v[1] = h_(k + 1, k - 1), v[2] = width == 3 ? h_(k + 2, k - 1) : 0.0; }
      double length;
      const double tau = make_reflection(v, width, length);
      if (k > m) {
        h_(k, k - 1) = length;
        for (std::int64_t i = 1; i < width; ++i) h_(k + i, k - 1) = 0.0;
      } else if (m > first) {
        h_(k, k - 1) *= 1.0 - tau;  // the other rows of this column are negligible
      }
      if (tau == 0.0) continue;
      if (width == 3) reflect<3>(k, first, last, v, tau);
      else reflect<2>(k, first, last, v, tau);
    }
  }
  template <int width>
  void reflect(std::int64_t k, std::int64_t first, std::int64_t last, const double* v, double tau) {
    const double b = v[1], c = width == 3 ? v[2] : 0.0;
    double *const x = row_of(h_, k), *const y = row_of(h_, k + 1), *const z = width == 3 ? row_of(h_, k + 2) : nullptr;
    for (std::int64_t j = k; j < end_column(last); ++j) {
      double sum = x[j] + b * y[j];
      if constexpr (width == 3) sum += c * z[j];
      sum *= tau;
      x[j] -= sum, y[j] -= b * sum;
      if constexpr (width == 3) z[j] -= c * sum;
    }
    const auto columns = [&](const Matrix<double>& m, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        double* const r = row_of(m, i) + k;
        double sum = r[0] + b * r[1];
        if constexpr (width == 3) sum += c * r[2];
        sum *= tau;
        r[0] -= sum, r[1] -= b * sum;
        if constexpr (width == 3) r[2] -= c * sum;
      }
    };
    columns(h_, begin_row(first), std::min(last, k + 3) + 1);
    if (q_) columns(*q_, 0, n_);
  }

  const Matrix<double> h_;
  const Matrix<double>* q_;
  std::int64_t n_;
  double norm_ = 0;
};

// The eigenvector re + i im of the triangle t (with 2 x 2 blocks where its subdiagonal is not 0) whose last nonzero
// element is that of row `last`. For small eigenvalues small differences matter, however large other values are.
void substitute(const Matrix<double>& t, Complex value, std::int64_t last, double* re, double* im) {
  const auto set = [&](std::int64_t i, Complex x) { re[i] = x.real(), im[i] = x.imag(); };
  // right-hand side of row i from the elements already known
  const auto right = [&](std::int64_t i, std::int64_t from) {
    return -Complex(dot(row_of(t, i) + from, re + from, last + 1 - from),
                    dot(row_of(t, i) + from, im + from, last + 1 - from));
  };
  const auto size_of = [](Complex z) { return std::abs(z.real()) + std::abs(z.imag()); };
  const double tiny = std::max(epsilon * size_of(value), std::numeric_limits<double>::min() / epsilon);
  const auto not_0 = [&](Complex d) { return size_of(d) < tiny ? Complex(tiny) : d; };
  std::int64_t i = last - 1;
  set(last, 1.0);
  if (value.imag() != 0.0) {  // the 2 x 2 block of the value
    const double beside = t(last - 1, last), below = t(last, last - 1);
    if (std::abs(beside) >= std::abs(below)) {
      set(last - 1, 1.0);
      set(last, (value - t(last - 1, last - 1)) / beside);
    } else {
      set(last - 1, (value - t(last, last)) / below);
    }
    i = last - 2;
  }
  for (; i >= 0; --i) {
    if (i > 0 && t(i, i - 1) != 0.0) {
      const Complex a = t(i - 1, i - 1) - value, d = t(i, i) - value, p = right(i - 1, i + 1), r = right(i, i + 1);
      const double b = t(i - 1, i), c = t(i, i - 1);
      const double most = std::max({size_of(a), size_of(d), std::abs(b), std::abs(c)});
      const Complex det = not_0((a * d - b * c) / most);
      set(i - 1, (d * p - b * r) / most / det);
      set(i, (a * r - c * p) / most / det);
      --i;
    } else {
      set(i, right(i, i + 1) / not_0(t(i, i) - value));
    }
    const double size = std::max({std::abs(re[i]), std::abs(im[i]), std::abs(re[i + 1]), std::abs(im[i + 1])});
    if (size > 1e100)
      for (std::int64_t j = i; j <= last; ++j) re[j] /= size, im[j] /= size;
  }
}

// Scales to length 1, with the largest element real, like LAPACK.
void normalize(double* re, double* im, std::int64_t n, bool real) {
  double most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max({most, std::abs(re[i]), std::abs(im[i])});
  double sum = 0, largest = 0;
  Complex turn = 1.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Complex x = Complex(re[i], im[i]) / most;
    const double square = std::norm(x);
    sum += square;
    if (square > largest) largest = square, turn = std::conj(x) / std::sqrt(square);
  }
  const Complex factor = (real ? Complex(1.0) : turn) / most / std::sqrt(sum);
  for (std::int64_t i = 0; i < n; ++i) {
    const Complex x = Complex(re[i], im[i]) * factor;
    re[i] = x.real(), im[i] = x.imag();
  }
}

// values [n]; vectors [n, n], one column per value, or null.
bool decompose(const Matrix<double>& a, Complex* values, Complex* vectors) {
  const std::int64_t n = a.rows;
  const double scale = good_scale(a), nan = std::numeric_limits<double>::quiet_NaN();
  if (scale == 0.0) {
    std::fill_n(values, n, Complex(nan, nan));
    if (vectors) std::fill_n(vectors, n * n, Complex(nan, nan));
    return true;
  }
  multiply_by(a, scale);
  const Memory<double> factors(n), re(n), im(n), all_re(n), all_im(n);
  balance(a, factors.data());
  const Square q(vectors ? n : 0, vectors ? n : 0);
  const Matrix<double>* const turned = vectors ? &q : nullptr;
  make_hessenberg(a, turned);
  Schur schur(a, turned);
  if (!schur.run(values)) return false;
  for (std::int64_t k = 0; vectors && k < n; ++k) {
    if (values[k].imag() < 0) {  // the conjugate of the previous one
      for (std::int64_t i = 0; i < n; ++i) vectors[i * n + k] = std::conj(vectors[i * n + k - 1]);
      continue;
    }
    const std::int64_t last = values[k].imag() > 0 ? k + 1 : k;
    substitute(a, values[k], last, re.data(), im.data());
    for (std::int64_t i = 0; i < n; ++i) {
      all_re[i] = factors[i] * dot(row_of(q, i), re.data(), last + 1);
      all_im[i] = values[k].imag() > 0 ? factors[i] * dot(row_of(q, i), im.data(), last + 1) : 0.0;
    }
    normalize(all_re.data(), all_im.data(), n, values[k].imag() == 0.0);
    for (std::int64_t i = 0; i < n; ++i) vectors[i * n + k] = {all_re[i], all_im[i]};
  }
  for (std::int64_t k = 0; k < n; ++k) values[k] /= scale;
  return true;
}

}  // namespace

void dense_eig(const View& a, const View& values, const View& vectors, const View& good) {
  const std::int64_t n = a.size(1);
  const double work = 25.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  if (n == 0) return std::fill_n(good.as<bool>(), a.size(0), true), void();
  for_matrices(a.size(0), work, [&](std::int64_t item) {  // a pair of numbers is a std::complex
    good.as<bool>()[item] = decompose(matrix_of<double>(a, item), static_cast<Complex*>(values.data) + item * n,
                                      vectors ? static_cast<Complex*>(vectors.data) + item * n * n : nullptr);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
