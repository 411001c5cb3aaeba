// Four columns of a matrix with as many rows as a vector has elements, to four vectors and back: squares of 4 x 4 are
// turned within 128-bit lanes, so only loads and stores cross lanes.
#pragma once

#include <cstdint>

#include "core/cpu/simd.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace mantissa::cpu_backend::MANTISSA_ISA::transpose {

using V = Vec<float>;
inline constexpr std::int64_t width = static_cast<std::int64_t>(V::size);

#if defined(__AVX512F__)
using Lanes = __m512;
inline Lanes gather_rows(const float* p, std::int64_t row) {  // rows 0, 4, 8, 12
  Lanes v = _mm512_castps128_ps512(_mm_loadu_ps(p));
  v = _mm512_insertf32x4(v, _mm_loadu_ps(p + 4 * row), 1);
  v = _mm512_insertf32x4(v, _mm_loadu_ps(p + 8 * row), 2);
  return _mm512_insertf32x4(v, _mm_loadu_ps(p + 12 * row), 3);
}
inline void scatter_rows(float* p, std::int64_t row, Lanes v) {
  _mm_storeu_ps(p, _mm512_castps512_ps128(v));
  _mm_storeu_ps(p + 4 * row, _mm512_extractf32x4_ps(v, 1));
  _mm_storeu_ps(p + 8 * row, _mm512_extractf32x4_ps(v, 2));
  _mm_storeu_ps(p + 12 * row, _mm512_extractf32x4_ps(v, 3));
}
inline Lanes low(Lanes a, Lanes b) { return _mm512_unpacklo_ps(a, b); }
inline Lanes high(Lanes a, Lanes b) { return _mm512_unpackhi_ps(a, b); }
inline Lanes low_pair(Lanes a, Lanes b) { return _mm512_shuffle_ps(a, b, 0x44); }
inline Lanes high_pair(Lanes a, Lanes b) { return _mm512_shuffle_ps(a, b, 0xee); }
#elif defined(__AVX2__)
using Lanes = __m256;
inline Lanes gather_rows(const float* p, std::int64_t row) {  // rows 0, 4
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 4 * row), 1);
}
inline void scatter_rows(float* p, std::int64_t row, Lanes v) {
  _mm_storeu_ps(p, _mm256_castps256_ps128(v));
  _mm_storeu_ps(p + 4 * row, _mm256_extractf128_ps(v, 1));
}
inline Lanes low(Lanes a, Lanes b) { return _mm256_unpacklo_ps(a, b); }
inline Lanes high(Lanes a, Lanes b) { return _mm256_unpackhi_ps(a, b); }
inline Lanes low_pair(Lanes a, Lanes b) { return _mm256_shuffle_ps(a, b, 0x44); }
inline Lanes high_pair(Lanes a, Lanes b) { return _mm256_shuffle_ps(a, b, 0xee); }
#endif

#if defined(__AVX2__)
inline void turn_squares(Lanes* v) {
  const Lanes a = low(v[0], v[1]), b = high(v[0], v[1]), c = low(v[2], v[3]), d = high(v[2], v[3]);
  v[0] = low_pair(a, c);
  v[1] = high_pair(a, c);
  v[2] = low_pair(b, d);
  v[3] = high_pair(b, d);
}
#endif

// to[j * to_row + i] = from[i * from_row + j] for i < width, j < 4.
inline void four_columns(const float* from, std::int64_t from_row, float* to, std::int64_t to_row) {
#if defined(__AVX2__)
  Lanes v[4];
  for (int i = 0; i < 4; ++i) v[i] = gather_rows(from + i * from_row, from_row);
  turn_squares(v);
  for (int j = 0; j < 4; ++j) store(to + j * to_row, V(v[j]));
#else
  for (std::int64_t i = 0; i < width; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) to[j * to_row + i] = from[i * from_row + j];
  }
#endif
}

// to[i * to_row + j] = from[j * from_row + i] for i < width, j < 4.
inline void four_rows(const float* from, std::int64_t from_row, float* to, std::int64_t to_row) {
#if defined(__AVX2__)
  Lanes v[4];
  for (int j = 0; j < 4; ++j) v[j] = load(from + j * from_row);
  turn_squares(v);
  for (int i = 0; i < 4; ++i) scatter_rows(to + i * to_row, to_row, v[i]);
#else
  for (std::int64_t i = 0; i < width; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) to[i * to_row + j] = from[j * from_row + i];
  }
#endif
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::transpose
