// Mean and variance of a row that is in cache: for layer norm and group norm.
#pragma once

#include "core/cpu/rows.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

template <class C> struct RowMoments { C mean, variance; };

// Corrects the rounding error of the mean by the sum of the deviations: one more pass over the cached row.
template <class C> [[gnu::noinline]] RowMoments<C> made_good(std::int64_t n, const C* p, RowMoments<C> m) {
  const auto deviation = [=](const auto& v) { return v - std::decay_t<decltype(v)>(m.mean); };
  const C away = fold_run<Sum>(n, deviation, p) / static_cast<C>(n);
  return {m.mean + away, std::max(C(0), m.variance - away * away)};
}
// The mean of n elements, and the mean of the squared deviations from it.
template <class C> RowMoments<C> moments_of_row(std::int64_t n, const C* p) {
  const auto count = static_cast<C>(n);
  const C mean = fold_run<Sum>(n, p) / count;
  const auto squared = [=](const auto& v) {
    const auto d = v - std::decay_t<decltype(v)>(mean);
    return d * d;
  };
  const RowMoments<C> m{mean, fold_run<Sum>(n, squared, p) / count};
  return mean * mean > 64 * m.variance ? made_good(n, p, m) : m;
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
