// Shifts, gcd, lcm, nextafter and frexp, one element at a time: they are rarely used.
#include <concepts>

#include "core/bit_functions.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
// y has the sizes that a and b broadcast to, contiguous; a and b have y's dtype and any strides.
MANTISSA_KERNEL(bit_pair, bits::Pair pair, const View& y, const View& a, const View& b)
// Results have x's sizes, contiguous: mantissa in x's dtype, exponent i32; x has any strides.
MANTISSA_KERNEL(frexp, const View& mantissa, const View& exponent, const View& x)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// Offset in x, which broadcasts to `sizes`, for element i of the result.
std::int64_t place(const View& x, const Dims& sizes, std::int64_t i) {
  std::int64_t at = 0;
  for (int d = sizes.rank() - 1, k = x.dim() - 1; k >= 0; --d, --k) {
    if (x.sizes[k] != 1) at += i % sizes[d] * x.strides[k];
    i /= sizes[d];
  }
  return at;
}
template <class F> void for_each(const View& y, const F& one) {
  parallel_for(y.numel(), 256, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) one(i);
  });
}

}  // namespace

void bit_pair(bits::Pair pair, const View& y, const View& a, const View& b) {
  bits::visit(pair, [&]<class F>(const F& formula) {
    visit(y.dtype, [&]<class T> {
      if constexpr (F::integers ? std::integral<T> && !std::same_as<T, bool> : std::floating_point<T>) {
        for_each(y, [&](std::int64_t i) {
          const Compute<T> left = a.as<const T>()[place(a, y.sizes, i)], right = b.as<const T>()[place(b, y.sizes, i)];
          y.as<T>()[i] = static_cast<T>(formula.f(left, right));
        });
      }
    });
  });
}

void frexp(const View& mantissa, const View& exponent, const View& x) {
  visit_floating(x.dtype, [&]<class T> {
    for_each(mantissa, [&](std::int64_t i) {
      const auto from = static_cast<Compute<T>>(x.as<const T>()[place(x, x.sizes, i)]);
      mantissa.as<T>()[i] = static_cast<T>(bits::Mantissa().f(from));
      exponent.as<std::int32_t>()[i] = static_cast<std::int32_t>(bits::Exponent().f(from));
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
