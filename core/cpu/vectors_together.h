// Vector loops unrolled over several vectors with independent results in registers, to hide latency.
#pragma once

#include "core/cpu/vectors.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// body.operator()<count>(lanes, j) for the vectors of C that cover [0, n): `together` at a time, and then one by one.
template <int together, class C, class F> inline void for_vectors_together(std::int64_t n, const F& body) {
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  std::int64_t j = 0;
  for (; j + together * width <= n; j += together * width) body.template operator()<together>(WholeVector{}, j);
  for (; j + width <= n; j += width) body.template operator()<1>(WholeVector{}, j);
  if (j < n) body.template operator()<1>(PartOfVector{n - j}, j);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
