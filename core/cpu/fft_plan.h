// Plans: the tables of a discrete Fourier transform of n elements, cached from call to call, and the transform of one
// long row: its lanes are columns of the row seen as a matrix (Bailey's four-step algorithm), or, if n has a large
// prime factor, it becomes a convolution (Bluestein) by transforms of another length.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "core/cpu/fft_strip.h"
#include "core/parallel.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::fft {

template <class C> class Room {  // n numbers, uninitialised
 public:
  explicit Room(std::int64_t n) : tensor_(Tensor::allocate({n}, dtype_of<C>)) {}
  C* data() const { return static_cast<C*>(tensor_.raw_data()); }

 private:
  Tensor tensor_;
};

// The largest divisor of n that is at most sqrt(n).
inline std::int64_t middle_divisor(std::int64_t n) {
  auto d = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % d != 0) --d;
  return d;
}

// Transforms of single rows of n pairs [n, 2].
template <class C> class Plan {
 public:
  explicit Plan(std::int64_t n) : n_(n) {
    if (!fourier::is_smooth(n, largest_radix)) {
      plan_convolution();
      return;
    }
    rows_ = middle_divisor(n);
    columns_ = n / rows_;
    down_ = std::make_unique<Passes<C>>(rows_);
    along_ = std::make_unique<Passes<C>>(columns_);
    plan_turns();
  }

  // out = scale * the transform of in; they must not overlap. swapped: the inverse transform.
  void run(C* out, const C* in, bool swapped, C scale) const {
    if (convolution_) convolve(out, in, swapped, scale);
    else run_matrix(out, in, swapped, scale);
  }
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(sizeof(C) * (turns_.size() + chirp_.size() + spectrum_.size())) + 64 * n_;
  }

 private:
  static constexpr std::int64_t w = lanes<C>;

  // Twiddle factors exp(-2 pi i k j / n) for row k and column j, one strip of columns after the other. Each is the
  // product of two out of about 2 sqrt(n) exact ones.
  void plan_turns() {
    std::int64_t block = 1;
    while (block * block < n_) block *= 2;
    std::vector<fourier::Root> coarse, fine;
    for (std::int64_t i = 0; i * block < n_; ++i) coarse.push_back(fourier::root(i * block, n_));
    for (std::int64_t i = 0; i < std::min(block, n_); ++i) fine.push_back(fourier::root(i, n_));
    const std::int64_t strips = (columns_ + w - 1) / w;
    turns_.resize(static_cast<std::size_t>(strips * rows_ * 2 * w));
    for (std::int64_t s = 0; s < strips; ++s) {
      for (std::int64_t k = 0; k < rows_; ++k) {
        C* const to = turns_.data() + (s * rows_ + k) * 2 * w;
        for (std::int64_t l = 0; l < w; ++l) {
          const std::int64_t e = k * std::min(s * w + l, columns_ - 1);
          const fourier::Root a = coarse[static_cast<std::size_t>(e / block)],
                              b = fine[static_cast<std::size_t>(e % block)];
          to[l] = static_cast<C>(a.re * b.re - a.im * b.im);
          to[w + l] = static_cast<C>(a.re * b.im + a.im * b.re);
        }
      }
    }
  }

  // Transforms all columns of a matrix `in` with n rows and `columns` columns. The results of a column are out_step
  // apart, and those of neighbouring columns start out_row apart. turns: twiddle factors for the results.
  static void run_columns(const Passes<C>& passes, C* out, std::int64_t out_row, std::int64_t out_step, const C* in,
                          std::int64_t columns, bool swap_in, bool swap_out, C scale, const C* turns) {
    const std::int64_t n = passes.size(), size = 2 * w * n;
    C* const from = const_cast<C*>(in);
    parallel_for(
        (columns + w - 1) / w, std::max<std::int64_t>(1, grain_size / (4 * size)),
        [&](std::int64_t begin, std::int64_t end) {
          const Room<C> room(2 * size);
          C *const a = room.data(), *const b = a + size;
          for (std::int64_t s = begin; s < end; ++s) {
            load_strip(
                a, strip_of<C>(s * w, columns, {2 * columns, 1, true}, [&](std::int64_t c) { return from + 2 * c; }), n,
                swap_in);
            C* const y = passes.run(a, b);
            for (std::int64_t k = 0; turns && k < n; ++k) {
              const Z<C> z = Z<C>::at(y + k * 2 * w), t = Z<C>::at(turns + (s * n + k) * 2 * w);
              Z<C>{xsimd::fnma(z.im, t.im, z.re * t.re), xsimd::fma(z.im, t.re, z.re * t.im)}.put(y + k * 2 * w);
            }
            store_strip(
                strip_of<C>(s * w, columns, {out_step, 1, true}, [&](std::int64_t c) { return out + out_row * c; }), y,
                n, swap_out, scale);
          }
        });
  }

  // As a matrix [rows, columns]: transforms of the columns, twiddle factors, then transforms of the rows of the result.
  // The intermediate matrix is stored transposed.
  void run_matrix(C* out, const C* in, bool swapped, C scale) const {
    const Room<C> between(2 * n_);
    C* const t = between.data();
    run_columns(*down_, t, 2 * rows_, 2, in, columns_, swapped, false, C(1), turns_.data());
    run_columns(*along_, out, 2, 2 * rows_, t, rows_, false, swapped, scale, nullptr);
  }

  // As in Transform.
  void plan_convolution() {
    const std::int64_t m = fourier::convolution_length(n_);
    std::vector<double> kernel(static_cast<std::size_t>(2 * m)), spectrum(kernel.size());
    fourier::Squares squares(n_);
    for (std::int64_t j = 0; j < n_; ++j) {
      const fourier::Root c = fourier::root(squares.next(), 2 * n_);
      chirp_.push_back(static_cast<C>(c.re));
      chirp_.push_back(static_cast<C>(c.im));
      for (const std::int64_t at : {j, (m - j) % m}) {
        kernel[static_cast<std::size_t>(2 * at)] = c.re;
        kernel[static_cast<std::size_t>(2 * at + 1)] = -c.im;
      }
    }
    Plan<double>(m).run(spectrum.data(), kernel.data(), false, 1.0);
    for (const double v : spectrum) spectrum_.push_back(static_cast<C>(v));
    convolution_ = std::make_unique<Plan<C>>(m);
  }
  static void multiply(C* y, const C* a, const C* b, std::int64_t count, C scale) {
    for (std::int64_t i = 0; i < 2 * count; i += 2) {
      const C re = a[i] * b[i] - a[i + 1] * b[i + 1], im = a[i] * b[i + 1] + a[i + 1] * b[i];
      y[i] = re * scale;
      y[i + 1] = im * scale;
    }
  }
  static void swap_parts(C* y, std::int64_t count) {
    for (std::int64_t i = 0; i < 2 * count; i += 2) std::swap(y[i], y[i + 1]);
  }
  void convolve(C* out, const C* in, bool swapped, C scale) const {
    const std::int64_t m = convolution_->n_;
    const Room<C> room(4 * m);
    C *a = room.data(), *b = a + 2 * m;
    std::copy_n(in, 2 * n_, out);
    if (swapped) swap_parts(out, n_);
    multiply(a, out, chirp_.data(), n_, C(1));
    std::fill(a + 2 * n_, a + 2 * m, C(0));
    convolution_->run(b, a, false, C(1));
    multiply(b, b, spectrum_.data(), m, C(1));
    convolution_->run(a, b, true, static_cast<C>(1.0 / static_cast<double>(m)));
    multiply(out, a, chirp_.data(), n_, scale);
    if (swapped) swap_parts(out, n_);
  }

  std::int64_t n_, rows_ = 1, columns_ = 1;
  std::unique_ptr<Passes<C>> down_, along_;
  std::vector<C> turns_;             // [strips of columns, rows, 2, lanes]
  std::vector<C> chirp_, spectrum_;  // [n, 2], [m, 2]
  std::unique_ptr<Plan<C>> convolution_;
};

// A small cache of the most recent plans: making one takes longer than using it.
template <class T> class Kept {
 public:
  std::shared_ptr<const T> operator()(std::int64_t n) {
    const std::lock_guard lock(mutex_);
    auto& entry = entries_[n];
    if (entry) return entry;
    auto made = std::make_shared<const T>(n);
    bytes_ += made->bytes();
    if (bytes_ > most_bytes) entries_.clear(), bytes_ = made->bytes();
    entries_[n] = made;
    return made;
  }

 private:
  static constexpr std::int64_t most_bytes = std::int64_t{64} << 20;
  std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<const T>> entries_;
  std::int64_t bytes_ = 0;
};
template <class T> std::shared_ptr<const T> kept(std::int64_t n) {
  static Kept<T>& all = *new Kept<T>;  // never destroyed: threads may still use it
  return all(n);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::fft
