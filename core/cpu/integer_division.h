// Integer division via doubles, vectorised with AVX-512, one at a time elsewhere, and either way faster than the
// processor's integer division: exact if both numbers have at most 52 bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/pointwise.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// F (Fmod, Remainder or FloorDivide) of a and b. The rounded quotient is at most one too far from 0; then the remainder
// has the wrong sign.
template <class F> std::int64_t divide_by_doubles(std::int64_t a, std::int64_t b) {
  const auto whole = static_cast<std::int64_t>(static_cast<double>(a) / static_cast<double>(b));
  const std::int64_t rest = a - whole * b;
  if constexpr (std::is_same_v<F, pointwise::Fmod>) {  // sign of a
    const std::int64_t size = b < 0 ? -b : b, back = rest < 0 ? size : -size;
    return rest + (rest != 0 && (rest ^ a) < 0 ? back : 0);
  } else {  // sign of b
    const bool below = rest != 0 && (rest ^ b) < 0;
    return std::is_same_v<F, pointwise::Remainder> ? rest + (below ? b : 0) : whole - below;
  }
}

// y[i] = F(a[i], b[i]): via doubles if all numbers of the run have at most 52 bits and no divisor is 0, else one by
// one.
template <class F, class S> void divide_run(std::int64_t n, const S* a, const S* b, S* y) {
  std::int64_t bits = 0, zeros = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t u = a[i], v = b[i];
    bits |= (u ^ (u >> 63)) | (v ^ (v >> 63));
    zeros += v == 0;
  }
  if (bits >> 52 == 0 && zeros == 0) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<S>(divide_by_doubles<F>(a[i], b[i]));
  } else {
    const F f;
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<S>(f.template f<std::int64_t>(a[i], b[i]));
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
