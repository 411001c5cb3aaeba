// Kernels of discrete Fourier transforms along the last dimension; complex views are pairs [..., n, 2], real
// ones [..., n]. Forward: y[k] = scale * sum of x[j] exp(-2 pi i j k / n); the inverse has a plus sign.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "core/kernel.h"

namespace mantissa {

MANTISSA_KERNEL(fft_complex, const View& y, const View& x, double scale, bool inverse)
// Real x to the frequencies 0 ... n / 2; those strictly between 0 and n / 2 are multiplied by `between`.
MANTISSA_KERNEL(fft_real, const View& y, const View& x, double scale, double between)
// The transposed map: y[j] is the real part of scale * sum of x[k] exp(2 pi i j k / n) over k = 0 ... n / 2, where
// terms strictly between 0 and n / 2 are multiplied by `between`. between = 2 makes it the inverse. Imaginary parts at
// frequencies 0 and n / 2 are not read.
MANTISSA_KERNEL(fft_real_inverse, const View& y, const View& x, double scale, double between)

namespace fourier {

// exp(-2 pi i j / n), 0 <= j < n, computed from std::sin and std::cos of at most pi / 4 for accuracy.
struct Root {
  double re, im;
};
inline Root root(std::int64_t j, std::int64_t n) {
  const std::int64_t eighth = 8 * j / n;  // octant of the angle; j / n is in turns
  const auto sine = [n](std::int64_t e) {
    return std::sin(std::numbers::pi / 4 * static_cast<double>(e) / static_cast<double>(n));
  };
  const auto cosine = [n](std::int64_t e) {
    return std::cos(std::numbers::pi / 4 * static_cast<double>(e) / static_cast<double>(n));
  };
  const std::int64_t up = 8 * j - eighth * n, down = n - up;  // eighths of a turn / n, from either end of the octant
  switch (eighth) {
    case 0:
      return {cosine(up), -sine(up)};
    case 1:
      return {sine(down), -cosine(down)};
    case 2:
      return {-sine(up), -cosine(up)};
    case 3:
      return {-cosine(down), -sine(down)};
    case 4:
      return {-cosine(up), sine(up)};
    case 5:
      return {-sine(down), cosine(down)};
    case 6:
      return {sine(up), cosine(up)};
    default:
      return {cosine(down), sine(down)};
  }
}

// Whether n has no prime factor above `most`.
inline bool is_smooth(std::int64_t n, std::int64_t most) {
  for (std::int64_t p = 2; p <= most && n > 1; ++p)
    while (n % p == 0) n /= p;
  return n == 1;
}
// The FFT length for a transform of n by Bluestein's algorithm: the shortest one that is mostly a power of two.
inline std::int64_t convolution_length(std::int64_t n) {
  std::int64_t shortest = 0;
  for (const std::int64_t odd : {1, 3, 5, 9, 15}) {
    std::int64_t m = 16 * odd;
    while (m < 2 * n - 1) m *= 2;
    if (shortest == 0 || m < shortest) shortest = m;
  }
  return shortest;
}
// j^2 modulo 2 n, for the factors exp(-pi i j^2 / n) of Bluestein's algorithm. Iterates from j = 0: (j + 1)^2 = j^2 + 2
// j + 1.
class Squares {
 public:
  explicit Squares(std::int64_t n) : period_(2 * n) {}
  std::int64_t next() {
    const std::int64_t square = square_;
    square_ = (square_ + 2 * j_++ + 1) % period_;
    return square;
  }

 private:
  std::int64_t period_, j_ = 0, square_ = 0;
};

}  // namespace fourier
}  // namespace mantissa
