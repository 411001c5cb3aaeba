// Four columns of a matrix with as many rows as a vector has elements, to four vectors and back: 4 x 4 squares are
// transposed within 128-bit lanes, so only loads and stores cross lanes. For 16-bit elements, a column is a word of two
// elements.
#pragma once

#include <cstdint>

#include "core/cpu/simd.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace mantissa::cpu_backend::MANTISSA_ISA::transpose {

using V = Vec<float>;
inline constexpr std::int64_t width = static_cast<std::int64_t>(V::size);

#if defined(__AVX2__)
template <class T>
inline __m128 load_quarter(const T* p) {
  return _mm_castsi128_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
template <class T>
inline void store_quarter(T* p, __m128 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_castps_si128(v));
}
#endif

#if defined(__AVX512F__)
using Lanes = __m512;
template <class T>
inline Lanes gather_rows(const T* p, std::int64_t row) {  // rows 0, 4, 8, 12
  Lanes v = _mm512_castps128_ps512(load_quarter(p));
  v = _mm512_insertf32x4(v, load_quarter(p + 4 * row), 1);
  v = _mm512_insertf32x4(v, load_quarter(p + 8 * row), 2);
  return _mm512_insertf32x4(v, load_quarter(p + 12 * row), 3);
}
template <class T>
inline void scatter_rows(T* p, std::int64_t row, Lanes v) {
  store_quarter(p, _mm512_castps512_ps128(v));
  store_quarter(p + 4 * row, _mm512_extractf32x4_ps(v, 1));
  store_quarter(p + 8 * row, _mm512_extractf32x4_ps(v, 2));
  store_quarter(p + 12 * row, _mm512_extractf32x4_ps(v, 3));
}
inline Lanes low(Lanes a, Lanes b) { return _mm512_unpacklo_ps(a, b); }
inline Lanes high(Lanes a, Lanes b) { return _mm512_unpackhi_ps(a, b); }
inline Lanes low_pair(Lanes a, Lanes b) { return _mm512_shuffle_ps(a, b, 0x44); }
inline Lanes high_pair(Lanes a, Lanes b) { return _mm512_shuffle_ps(a, b, 0xee); }
#elif defined(__AVX2__)
using Lanes = __m256;
template <class T>
inline Lanes gather_rows(const T* p, std::int64_t row) {  // rows 0, 4
  return _mm256_insertf128_ps(_mm256_castps128_ps256(load_quarter(p)), load_quarter(p + 4 * row), 1);
}
template <class T>
inline void scatter_rows(T* p, std::int64_t row, Lanes v) {
  store_quarter(p, _mm256_castps256_ps128(v));
  store_quarter(p + 4 * row, _mm256_extractf128_ps(v, 1));
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

#if defined(__AVX2__)
// v[j][i] = word j of the row that begins at from + i * from_row, and back.
template <class T>
inline void load_columns(const T* from, std::int64_t from_row, Lanes* v) {
  for (int i = 0; i < 4; ++i) v[i] = gather_rows(from + i * from_row, from_row);
  turn_squares(v);
}
template <class T>
inline void store_columns(Lanes* v, T* to, std::int64_t to_row) {
  turn_squares(v);
  for (int i = 0; i < 4; ++i) scatter_rows(to + i * to_row, to_row, v[i]);
}
#endif

#if defined(__AVX2__)
// A square of width x width: v[j][i] becomes v[i][j].
inline void turn_square(Lanes* v) {
  for (std::int64_t i = 0; i < width; i += 4) turn_squares(v + i);
#if defined(__AVX512F__)
  for (int j = 0; j < 4; ++j) {
    const Lanes a = _mm512_shuffle_f32x4(v[j], v[j + 4], 0x44), b = _mm512_shuffle_f32x4(v[j], v[j + 4], 0xee);
    const Lanes c = _mm512_shuffle_f32x4(v[j + 8], v[j + 12], 0x44),
                d = _mm512_shuffle_f32x4(v[j + 8], v[j + 12], 0xee);
    v[j] = _mm512_shuffle_f32x4(a, c, 0x88);
    v[j + 4] = _mm512_shuffle_f32x4(a, c, 0xdd);
    v[j + 8] = _mm512_shuffle_f32x4(b, d, 0x88);
    v[j + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
#else
  for (int j = 0; j < 4; ++j) {
    const Lanes a = v[j], b = v[j + 4];
    v[j] = _mm256_permute2f128_ps(a, b, 0x20);
    v[j + 4] = _mm256_permute2f128_ps(a, b, 0x31);
  }
#endif
}
#endif

// to[j * to_row + i] = from[i * from_row + j] for i < width, j < 4.
inline void four_columns(const float* from, std::int64_t from_row, float* to, std::int64_t to_row) {
#if defined(__AVX2__)
  Lanes v[4];
  load_columns(from, from_row, v);
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
  store_columns(v, to, to_row);
#else
  for (std::int64_t i = 0; i < width; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) to[i * to_row + j] = from[j * from_row + i];
  }
#endif
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::transpose
