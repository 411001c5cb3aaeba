// Bit-level functions of single elements, called by the kernels of shifts, gcd, lcm, nextafter and frexp
// (core/ops_numeric.h). Formulas as in core/pointwise.h: f over T, which is std::int64_t for integers.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace mantissa::bits {

// A shift count below 0 or above 63 shifts everything out, as in PyTorch; bits that do not fit a narrower dtype are
// dropped when the result is stored.
struct LeftShift {
  static constexpr bool integers = true;
  template <class T> MANTISSA_HD T f(T a, T b) const {
    return b < 0 || b > 63 ? 0 : static_cast<T>(static_cast<std::uint64_t>(a) << b);
  }
};
struct RightShift {  // arithmetic: copies the sign
  static constexpr bool integers = true;
  template <class T> MANTISSA_HD T f(T a, T b) const { return a >> (b < 0 || b > 63 ? 63 : b); }
};
MANTISSA_HD inline std::uint64_t magnitude(std::int64_t x) {
  return x < 0 ? -static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
}
MANTISSA_HD inline std::uint64_t greatest_divisor(std::uint64_t a, std::uint64_t b) {  // Euclid's algorithm
  while (b != 0) {
    const std::uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}
struct Gcd {  // not negative; gcd(0, 0) = 0
  static constexpr bool integers = true;
  template <class T> MANTISSA_HD T f(T a, T b) const {
    return static_cast<T>(greatest_divisor(magnitude(a), magnitude(b)));
  }
};
struct Lcm {  // not negative; 0 if either is 0
  static constexpr bool integers = true;
  template <class T> MANTISSA_HD T f(T a, T b) const {
    const std::uint64_t divisor = greatest_divisor(magnitude(a), magnitude(b));
    return divisor == 0 ? 0 : static_cast<T>(magnitude(a) / divisor * magnitude(b));
  }
};
struct NextAfter {  // the next number of T from a towards b
  static constexpr bool integers = false;
  template <class T> MANTISSA_HD T f(T a, T b) const { return std::nextafter(a, b); }
};
enum class Pair { left_shift, right_shift, gcd, lcm, next_after };
template <class F> void visit(Pair pair, const F& with) {
  switch (pair) {
    case Pair::left_shift: return with(LeftShift());
    case Pair::right_shift: return with(RightShift());
    case Pair::gcd: return with(Gcd());
    case Pair::lcm: return with(Lcm());
    case Pair::next_after: return with(NextAfter());
  }
}

// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1. 0, infinity and NaN are their own mantissa.
struct Mantissa {
  template <class T> MANTISSA_HD T f(T x) const {
    int exponent = 0;
    return std::isfinite(x) ? std::frexp(x, &exponent) : x;
  }
};
struct Exponent {
  template <class T> MANTISSA_HD T f(T x) const {
    int exponent = 0;
    if (std::isfinite(x)) std::frexp(x, &exponent);
    return static_cast<T>(exponent);
  }
};

}  // namespace mantissa::bits
