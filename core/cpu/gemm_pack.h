// Packing for products of f16 and bf16. A panel holds `lines` rows of a (or columns of b), interleaved:
//   panel[u * lines + i] = unit u of line i
// A unit is four bytes: one value converted to f32, or two adjacent bf16 along k, as vdpbf16ps multiplies. Lines beyond
// the last one, and the second half of an odd last pair, are zeros.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/cpu/simd.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::gemm_pack {

using Unit = std::uint32_t;

template <bool pairs> constexpr std::int64_t units_of(std::int64_t depth) { return pairs ? (depth + 1) / 2 : depth; }

#if defined(__AVX512F__)

inline __mmask16 first_of_16(std::int64_t n) {
  return n >= 16 ? __mmask16(0xffff) : n > 0 ? __mmask16((1u << n) - 1) : __mmask16(0);
}
inline __mmask32 first_of_32(std::int64_t n) { return n >= 32 ? 0xffffffffu : n > 0 ? (1u << n) - 1 : 0u; }

// The elements out of 16 selected by the mask, zeros elsewhere.
inline __m512 load_wide(const float* p, __mmask16 m) { return _mm512_maskz_loadu_ps(m, p); }
inline __m512 load_wide(const Half* p, __mmask16 m) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p)); }
inline __m512 load_wide(const BFloat16* p, __mmask16 m) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)), 16));
}

// Transposes 16 x 16 elements of four bytes.
inline void transpose16(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// 16 units of a line that is contiguous along k, of `depth` elements from p.
template <bool pairs, class T> __m512i units_along(const T* p, std::int64_t depth) {
  if constexpr (pairs) return _mm512_maskz_loadu_epi16(first_of_32(depth), p);
  else return _mm512_castps_si512(load_wide(p, first_of_16(depth)));
}
// One unit of each of 16 adjacent lines; k elements of a line are `step` apart, `depth` of them are left.
template <bool pairs, class T>
__m512i units_across(const T* p, std::int64_t step, std::int64_t depth, std::int64_t lines) {
  const __mmask16 real = first_of_16(lines);
  if constexpr (pairs) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(real, p));
    if (depth < 2) return low;
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(real, p + step));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
  } else {
    return _mm512_castps_si512(load_wide(p, real));
  }
}

// A pair of each of 32 adjacent lines, whose rows along k are `step` apart.
template <class T> void interleave_rows(Unit* to, const T* p, std::int64_t step) {
  static_assert(sizeof(T) == 2);
  const __m512i first = _mm512_loadu_si512(p), second = _mm512_loadu_si512(p + step);
  // where the elements of the first 16 units are in both: 0, 32, 1, 33, ...
  const __m512i half = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                        5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(first, half, second));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(first, _mm512_add_epi16(half, _mm512_set1_epi16(16)), second));
}

#endif

// Packs one panel from `from`, with line stride `line` and element stride `step`. Only the first `count` lines exist.
template <bool pairs, int lines, class T>
void pack(Unit* to, const T* from, std::int64_t count, std::int64_t line, std::int64_t depth, std::int64_t step) {
  const std::int64_t units = units_of<pairs>(depth);
#if defined(__AVX512F__)
  constexpr std::int64_t per_unit = pairs ? 2 : 1;
  if (step == 1) {
    for (std::int64_t i = 0; i < lines; i += 16) {
      const __mmask16 stored = first_of_16(lines - i);
      for (std::int64_t u = 0; u < units; u += 16) {
        __m512i block[16];
        for (std::int64_t r = 0; r < 16; ++r) {
          block[r] = i + r < count ? units_along<pairs>(from + (i + r) * line + u * per_unit, depth - u * per_unit)
                                   : _mm512_setzero_si512();
        }
        transpose16(block);
        const std::int64_t last = std::min<std::int64_t>(16, units - u);
        for (std::int64_t r = 0; r < last; ++r) _mm512_mask_storeu_epi32(to + (u + r) * lines + i, stored, block[r]);
      }
    }
    return;
  }
  if (line == 1) {
    std::int64_t u = 0;
    if constexpr (pairs && lines == 32) {
      for (; count == lines && 2 * u + 1 < depth; ++u) interleave_rows(to + u * lines, from + 2 * u * step, step);
    }
    for (; u < units; ++u) {
      const T* row = from + u * per_unit * step;
      for (std::int64_t i = 0; i < lines; i += 16) {
        _mm512_mask_storeu_epi32(to + u * lines + i, first_of_16(lines - i),
                                 units_across<pairs>(row + i, step, depth - u * per_unit, count - i));
      }
    }
    return;
  }
#endif
  if constexpr (pairs) {
    for (std::int64_t i = 0; i < lines; ++i) {
      for (std::int64_t u = 0; u < units; ++u) {
        const T* p = from + i * line + 2 * u * step;
        const Unit low = i < count ? p[0].bits : 0u, high = i < count && 2 * u + 1 < depth ? p[step].bits : 0u;
        to[u * lines + i] = low | high << 16;
      }
    }
  } else {
    float* out = reinterpret_cast<float*>(to);
    constexpr std::int64_t run = 64;
    float values[run];
    if (line == 1) {
      for (std::int64_t u = 0; u < depth; ++u) {
        convert_run(out + u * lines, from + u * step, 1, count);
        std::fill(out + u * lines + count, out + (u + 1) * lines, 0.0f);
      }
      return;
    }
    for (std::int64_t i = 0; i < lines; ++i) {
      for (std::int64_t u = 0; u < depth; u += run) {
        const std::int64_t n = std::min(run, depth - u);
        if (i < count) convert_run(values, from + i * line + u * step, step, n);
        else std::fill_n(values, n, 0.0f);
        for (std::int64_t r = 0; r < n; ++r) out[(u + r) * lines + i] = values[r];
      }
    }
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::gemm_pack
