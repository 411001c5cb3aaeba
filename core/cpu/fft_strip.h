// Loads and stores as many rows of complex or real numbers as a vector has lanes, between memory and the buffers of
// core/cpu/fft_passes.h.
#pragma once

#include <algorithm>

#include "core/cpu/fft_passes.h"
#include "core/cpu/pairs.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::fft {

// Layout of a row's numbers: element i at i * step; for pairs, the imaginary part `part` after the real one.
struct Places {
  std::int64_t step, part;
  bool pairs;
};
template <class C> struct Strip {
  C* row[lanes<C>];  // start of each row; unused lanes repeat the last row
  std::int64_t count;
  Places at;

  bool is_side_by_side() const {
    if (!at.pairs || at.part != 1 || count != lanes<C>) return false;
    for (std::int64_t l = 1; l < count; ++l)
      if (row[l] != row[0] + 2 * l) return false;
    return true;
  }
  bool is_in_rows() const { return at.pairs && at.part == 1 && at.step == 2; }
};
// Rows first, first + 1, ... out of `rows`; place(r) is the start of row r.
template <class C, class F> Strip<C> strip_of(std::int64_t first, std::int64_t rows, const Places& at, const F& place) {
  Strip<C> s{{}, std::min(lanes<C>, rows - first), at};
  for (std::int64_t l = 0; l < lanes<C>; ++l) s.row[l] = place(first + std::min(l, s.count - 1));
  return s;
}

// swapped: exchanges real and imaginary parts, which turns a transform into its inverse.
template <class C> void load_strip(C* to, const Strip<C>& s, std::int64_t n, bool swapped) {
  constexpr std::int64_t w = lanes<C>;
  const std::int64_t re = swapped ? w : 0, im = w - re;
  std::int64_t i = 0;
  if (s.is_side_by_side()) {
    for (; i < n; ++i) {
      Vec<C> a, b;
      load_pairs(s.row[0] + i * s.at.step, a, b);
      store(to + i * 2 * w + re, a);
      store(to + i * 2 * w + im, b);
    }
  } else if (s.is_in_rows()) {
    for (; i + w / 2 <= n; i += w / 2) {
      Vec<C> v[w];
      for (std::int64_t l = 0; l < w; ++l) v[l] = load(s.row[l] + 2 * i);
      turn_square(v);
      for (std::int64_t k = 0; k < w / 2; ++k) {
        store(to + (i + k) * 2 * w + re, v[2 * k]);
        store(to + (i + k) * 2 * w + im, v[2 * k + 1]);
      }
    }
  }
  for (; i < n; ++i) {
    C* const z = to + i * 2 * w;
    for (std::int64_t l = 0; l < w; ++l) z[re + l] = s.row[l][i * s.at.step];
    for (std::int64_t l = 0; l < w; ++l) z[im + l] = s.at.pairs ? s.row[l][i * s.at.step + s.at.part] : C(0);
  }
}

// For real results only the real parts are stored.
template <class C> void store_strip(const Strip<C>& s, const C* from, std::int64_t n, bool swapped, C scale) {
  constexpr std::int64_t w = lanes<C>;
  const std::int64_t re = swapped ? w : 0, im = w - re;
  const Vec<C> factor(scale);
  std::int64_t i = 0;
  if (s.is_side_by_side()) {
    for (; i < n; ++i) {
      const C* const z = from + i * 2 * w;
      store_pairs(s.row[0] + i * s.at.step, Vec<C>(load(z + re) * factor), Vec<C>(load(z + im) * factor));
    }
  } else if (s.is_in_rows()) {
    for (; i + w / 2 <= n; i += w / 2) {
      Vec<C> v[w];
      for (std::int64_t k = 0; k < w / 2; ++k) {
        const C* const z = from + (i + k) * 2 * w;
        v[2 * k] = load(z + re) * factor;
        v[2 * k + 1] = load(z + im) * factor;
      }
      turn_square(v);
      for (std::int64_t l = 0; l < s.count; ++l) store(s.row[l] + 2 * i, v[l]);
    }
  }
  for (; i < n; ++i) {
    const C* const z = from + i * 2 * w;
    for (std::int64_t l = 0; l < s.count; ++l) {
      s.row[l][i * s.at.step] = z[re + l] * scale;
      if (s.at.pairs) s.row[l][i * s.at.step + s.at.part] = z[im + l] * scale;
    }
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::fft
