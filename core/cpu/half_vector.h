// One vector of floats from storage in f32, bf16 or f16, and back: widened in registers, rounded to nearest even.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/cpu/simd.h"
#include "core/half.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace mantissa::cpu_backend::MANTISSA_ISA::half_vector {

using V = Vec<float>;
inline constexpr std::int64_t width = static_cast<std::int64_t>(V::size);

template <class T>
inline V read(const T* p) {  // the plain way, for machines without conversions
  float line[width];
  for (std::int64_t i = 0; i < width; ++i) line[i] = static_cast<float>(p[i]);
  return load(line);
}
template <class T>
inline void write(T* p, const V& v) {
  float line[width];
  store(line, v);
  for (std::int64_t i = 0; i < width; ++i) p[i] = static_cast<T>(line[i]);
}
template <>
inline V read(const float* p) {
  return load(p);
}
template <>
inline void write(float* p, const V& v) {
  store(p, v);
}

#if defined(__AVX512F__)
template <>
inline V read(const BFloat16* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return V(_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
}
template <>
inline void write(BFloat16* p, const V& v) {
  const __m512i x = _mm512_castps_si512(v), high = _mm512_srli_epi32(x, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i result = _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(result));
}
template <>
inline V read(const Half* p) {
  return V(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
template <>
inline void write(Half* p, const V& v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__AVX2__)
template <>
inline V read(const BFloat16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return V(_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
}
template <>
inline void write(BFloat16* p, const V& v) {
  const __m256i x = _mm256_castps_si256(v), high = _mm256_srli_epi32(x, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i result = _mm256_blendv_epi8(rounded, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(result, result), 0x88);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
template <>
inline V read(const Half* p) {
  return V(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
template <>
inline void write(Half* p, const V& v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif

// The first n elements, 0 <= n <= width; the others are zero, or are not written.
template <class T>
inline V read(const T* p, std::int64_t n) {
  if (n == width) return read(p);
  T line[width] = {};
  std::memcpy(static_cast<void*>(line), p, static_cast<std::size_t>(n) * sizeof(T));
  return read(static_cast<const T*>(line));
}
template <class T>
inline void write(T* p, const V& v, std::int64_t n) {
  if (n == width) return write(p, v);
  T line[width];
  write(line, v);
  std::memcpy(static_cast<void*>(p), line, static_cast<std::size_t>(n) * sizeof(T));
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::half_vector
