// Discrete Fourier transforms of as many rows as a vector has lanes, one row per lane. An element of the buffers is a
// vector of real parts and one of imaginary parts. Stockham passes, one per factor of n: each reads one buffer and
// writes the other, and the last one leaves the result in order.
#pragma once

#include <algorithm>
#include <vector>

#include "core/cpu/simd.h"
#include "core/fft.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::fft {

template <class C> inline constexpr std::int64_t lanes = static_cast<std::int64_t>(Vec<C>::size);
inline constexpr std::int64_t largest_radix = 61;  // remaining factors are prime and use Bluestein's algorithm

template <class C> struct Z {
  Vec<C> re, im;
  static Z at(const C* p) { return {load(p), load(p + lanes<C>)}; }
  void put(C* p) const {
    store(p, re);
    store(p + lanes<C>, im);
  }
  friend Z operator+(const Z& a, const Z& b) { return {a.re + b.re, a.im + b.im}; }
  friend Z operator-(const Z& a, const Z& b) { return {a.re - b.re, a.im - b.im}; }
  Z times(C wr, C wi) const {
    const Vec<C> r(wr), i(wi);
    return {xsimd::fnma(im, i, re * r), xsimd::fma(im, r, re * i)};
  }
  Z times_minus_i() const { return {im, -re}; }
};

// A transform of r elements.
template <class C> inline void butterfly(Z<C> (&a)[2], const C*) {
  const Z<C> t = a[0] - a[1];
  a[0] = a[0] + a[1];
  a[1] = t;
}
template <class C> inline void four(Z<C>& a, Z<C>& b, Z<C>& c, Z<C>& d) {
  const Z<C> s = a + c, t = a - c, u = b + d, v = (b - d).times_minus_i();
  a = s + u;
  b = t + v;
  c = s - u;
  d = t - v;
}
template <class C> inline void butterfly(Z<C> (&a)[4], const C*) { four(a[0], a[1], a[2], a[3]); }
template <class C> inline void butterfly(Z<C> (&a)[8], const C*) {
  four(a[0], a[2], a[4], a[6]);
  four(a[1], a[3], a[5], a[7]);
  const Vec<C> h(static_cast<C>(std::numbers::sqrt2 / 2));
  a[3] = {(a[3].re + a[3].im) * h, (a[3].im - a[3].re) * h};
  a[5] = a[5].times_minus_i();
  a[7] = {(a[7].im - a[7].re) * h, -(a[7].re + a[7].im) * h};
  const Z<C> y[8] = {a[0] + a[1], a[2] + a[3], a[4] + a[5], a[6] + a[7],
                     a[0] - a[1], a[2] - a[3], a[4] - a[5], a[6] - a[7]};
  for (int k = 0; k < 8; ++k) a[k] = y[k];
}
// r odd. roots: cos and sin of 2 pi k / r. Elements k and r - k share their products.
template <int most, class C> [[gnu::always_inline]] inline void odd_butterfly(Z<C>* a, int r, const C* roots) {
  Z<C> sum[most / 2], difference[most / 2];
  const Z<C> first = a[0];
  const int half = r / 2;
  for (int k = 0; k < half; ++k) {
    sum[k] = a[k + 1] + a[r - 1 - k];
    difference[k] = (a[k + 1] - a[r - 1 - k]).times_minus_i();
    a[0] = a[0] + sum[k];
  }
  for (int j = 1; j <= half; ++j) {
    Z<C> even = first, odd{Vec<C>(C(0)), Vec<C>(C(0))};
    for (int k = 0, at = 0; k < half; ++k) {
      at = at + j < r ? at + j : at + j - r;
      const Vec<C> cosine(roots[2 * at]), sine(roots[2 * at + 1]);
      even = {xsimd::fma(sum[k].re, cosine, even.re), xsimd::fma(sum[k].im, cosine, even.im)};
      odd = {xsimd::fma(difference[k].re, sine, odd.re), xsimd::fma(difference[k].im, sine, odd.im)};
    }
    a[j] = even + odd;
    a[r - j] = even - odd;
  }
}
template <class C> inline void butterfly(Z<C> (&a)[3], const C* roots) { odd_butterfly<3>(a, 3, roots); }
template <class C> inline void butterfly(Z<C> (&a)[5], const C* roots) { odd_butterfly<5>(a, 5, roots); }
template <class C> inline void butterfly(Z<C> (&a)[7], const C* roots) { odd_butterfly<7>(a, 7, roots); }

// One pass: n = stride * count * r; `stride` is the product of the previous factors.
template <class C> struct Pass {
  int radix = 1;
  std::int64_t stride = 1, count = 1;
  std::vector<C> twiddles;  // [count, radix - 1, 2]
  std::vector<C> roots;     // [radix, 2]: cos and sin
};

template <int fixed, class C> void run_pass(C* y, const C* x, const Pass<C>& pass) {
  constexpr std::int64_t width = 2 * lanes<C>;
  const int r = fixed > 0 ? fixed : pass.radix;
  const std::int64_t stride = pass.stride, count = pass.count;
  const C* const roots = pass.roots.data();
  Z<C> a[fixed > 0 ? fixed : largest_radix];
  for (std::int64_t p = 0; p < count; ++p) {
    const C* const w = pass.twiddles.data() + p * 2 * (r - 1);
    for (std::int64_t q = 0; q < stride; ++q) {
      const C* const from = x + (q + stride * p) * width;
      C* const to = y + (q + stride * r * p) * width;
      for (int k = 0; k < r; ++k) a[k] = Z<C>::at(from + stride * count * k * width);
      if constexpr (fixed > 0) butterfly(a, roots);
      else odd_butterfly<largest_radix>(a, r, roots);
      a[0].put(to);
      if (p == 0) {
        for (int j = 1; j < r; ++j) a[j].put(to + stride * j * width);
      } else {
        for (int j = 1; j < r; ++j) a[j].times(w[2 * j - 2], w[2 * j - 1]).put(to + stride * j * width);
      }
    }
  }
}

template <class C> class Passes {
 public:
  explicit Passes(std::int64_t n) : n_(n) {
    std::vector<int> radices;
    std::int64_t rest = n;
    for (int p = 3; p <= largest_radix; p += 2)
      for (; rest % p == 0; rest /= p) radices.push_back(p);
    int twos = 0;
    for (; rest % 2 == 0; rest /= 2) ++twos;
    for (; twos > 4 || twos == 3; twos -= 3) radices.push_back(8);
    for (; twos > 1; twos -= 2) radices.push_back(4);
    if (twos == 1) radices.push_back(2);
    std::int64_t stride = 1;
    for (const int r : radices) {
      Pass<C> pass{r, stride, n / stride / r, {}, {}};
      for (std::int64_t p = 0; p < pass.count; ++p) {
        for (int j = 1; j < r; ++j) {
          const fourier::Root w = fourier::root(p * j, n / stride);
          pass.twiddles.push_back(static_cast<C>(w.re));
          pass.twiddles.push_back(static_cast<C>(w.im));
        }
      }
      for (int k = 0; k < r; ++k) {
        const fourier::Root w = fourier::root(k, r);
        pass.roots.push_back(static_cast<C>(w.re));
        pass.roots.push_back(static_cast<C>(-w.im));
      }
      passes_.push_back(std::move(pass));
      stride *= r;
    }
  }
  std::int64_t size() const { return n_; }
  std::int64_t bytes() const { return n_ * 2 * static_cast<std::int64_t>(sizeof(C)); }  // about

  // Transforms a, with b as a buffer of the same size; returns the one that holds the result.
  C* run(C* a, C* b) const {
    for (const Pass<C>& pass : passes_) {
      switch (pass.radix) {
        case 2:
          run_pass<2>(b, a, pass);
          break;
        case 3:
          run_pass<3>(b, a, pass);
          break;
        case 4:
          run_pass<4>(b, a, pass);
          break;
        case 5:
          run_pass<5>(b, a, pass);
          break;
        case 7:
          run_pass<7>(b, a, pass);
          break;
        case 8:
          run_pass<8>(b, a, pass);
          break;
        default:
          run_pass<0>(b, a, pass);
      }
      std::swap(a, b);
    }
    return a;
  }

 private:
  std::int64_t n_;
  std::vector<Pass<C>> passes_;
};

template <class C> void push_root(std::vector<C>& to, std::int64_t j, std::int64_t n) {
  const fourier::Root w = fourier::root(j, n);
  to.push_back(static_cast<C>(w.re));
  to.push_back(static_cast<C>(w.im));
}

// Any n. If n has a prime factor that is too large for a pass: with j k = (j^2 + k^2 - (k - j)^2) / 2 the sum over j is
// a convolution with exp(pi i j^2 / n) (Bluestein).
template <class C> class Transform {
 public:
  explicit Transform(std::int64_t n) : n_(n), passes_(is_direct(n) ? n : fourier::convolution_length(n)) {
    if (is_direct(n)) return;
    const std::int64_t m = passes_.size();
    constexpr std::int64_t w = lanes<double>;
    std::vector<double> a(static_cast<std::size_t>(2 * w * m)), b(a.size());  // the kernel in each lane
    fourier::Squares squares(n);
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t square = squares.next();
      push_root(chirp_, square, 2 * n);
      const fourier::Root c = fourier::root(square, 2 * n);
      for (const std::int64_t at : {j, (m - j) % m}) {
        for (std::int64_t l = 0; l < w; ++l) {
          a[static_cast<std::size_t>(2 * w * at + l)] = c.re;
          a[static_cast<std::size_t>(2 * w * at + w + l)] = -c.im;
        }
      }
    }
    const double* const spectrum = Passes<double>(m).run(a.data(), b.data());
    for (std::int64_t k = 0; k < m; ++k) {
      for (const std::int64_t part : {std::int64_t{0}, w})
        spectrum_.push_back(static_cast<C>(spectrum[2 * w * k + part] / static_cast<double>(m)));
    }
  }
  std::int64_t size() const { return n_; }
  std::int64_t room() const { return passes_.size(); }  // elements that both buffers must hold
  std::int64_t bytes() const { return 4 * room() * static_cast<std::int64_t>(sizeof(C)); }  // about

  // Transforms a, with b as buffer; returns the one that holds the result.
  C* run(C* a, C* b) const {
    if (chirp_.empty()) return passes_.run(a, b);
    constexpr std::int64_t width = 2 * lanes<C>;
    const std::int64_t m = passes_.size();
    multiply(a, a, chirp_.data(), n_, false);
    std::fill(a + n_ * width, a + m * width, C(0));
    C* const x = passes_.run(a, b);
    // swapped real and imaginary parts: the next transform is an inverse one
    multiply(x, x, spectrum_.data(), m, true);
    C* const y = passes_.run(x, x == a ? b : a);
    for (std::int64_t k = 0; k < n_; ++k) {
      const Z<C> z = Z<C>::at(y + k * width);
      Z<C>{z.im, z.re}
          .times(chirp_[static_cast<std::size_t>(2 * k)], chirp_[static_cast<std::size_t>(2 * k + 1)])
          .put(y + k * width);
    }
    return y;
  }

 private:
  static bool is_direct(std::int64_t n) { return fourier::is_smooth(n, largest_radix); }
  static void multiply(C* y, const C* x, const C* factors, std::int64_t n, bool swapped) {
    constexpr std::int64_t width = 2 * lanes<C>;
    for (std::int64_t k = 0; k < n; ++k) {
      const Z<C> z = Z<C>::at(x + k * width).times(factors[2 * k], factors[2 * k + 1]);
      (swapped ? Z<C>{z.im, z.re} : z).put(y + k * width);
    }
  }

  std::int64_t n_;
  Passes<C> passes_;
  std::vector<C> chirp_, spectrum_;  // [n, 2], [m, 2]
};

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::fft
