// Vectors of the compute type loaded from and stored to memory of any floating type: f16 and bf16 are widened on load
// and rounded to nearest even on store, in registers. For kernels that read each element once; those that read tiles
// several times convert them first (load_run in core/cpu/simd.h).
#pragma once

#include "core/cpu/rows.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

inline Vec<float> load_wide(const float* p) { return load(p); }
inline Vec<double> load_wide(const double* p) { return load(p); }
inline void store_rounded(float* p, const Vec<float>& v) { store(p, v); }
inline void store_rounded(double* p, const Vec<double>& v) { store(p, v); }

#if defined(__AVX512BW__)
inline Vec<float> widen_bfloat16(__m256i bits) {
  return Vec<float>(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16)));
}
inline __m256i round_to_bfloat16(const Vec<float>& v) {  // as float_to_bfloat16 in core/half.h
  const __m512i bits = _mm512_castps_si512(v), upper = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40)));
}
inline Vec<float> load_wide(const BFloat16* p) {
  return widen_bfloat16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec<float> load_wide(const Half* p) {
  return Vec<float>(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
inline void store_rounded(BFloat16* p, const Vec<float>& v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_to_bfloat16(v));
}
inline void store_rounded(Half* p, const Vec<float>& v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__AVX2__) && defined(__F16C__)
inline Vec<float> load_wide(const BFloat16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return Vec<float>(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)));
}
inline Vec<float> load_wide(const Half* p) {
  return Vec<float>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline void store_rounded(BFloat16* p, const Vec<float>& v) {
  const __m256i bits = _mm256_castps_si256(v), upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i words = _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), nan);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0b1000);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
inline void store_rounded(Half* p, const Vec<float>& v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#else
template <class T> inline Vec<float> load_wide(const T* p) {
  float buffer[Vec<float>::size];
  convert_run(buffer, p, 1, static_cast<std::int64_t>(Vec<float>::size));
  return load(buffer);
}
template <class T> inline void store_rounded(T* p, const Vec<float>& v) {
  float buffer[Vec<float>::size];
  store(buffer, v);
  convert_run(p, buffer, 1, static_cast<std::int64_t>(Vec<float>::size));
}
#endif

// Only the first n elements, n below the vector width; the others are 0.
inline Vec<float> load_wide_part(const float* p, std::int64_t n) { return load_part(p, n); }
inline Vec<double> load_wide_part(const double* p, std::int64_t n) { return load_part(p, n); }
inline void store_rounded_part(float* p, const Vec<float>& v, std::int64_t n) { store_part(p, v, n); }
inline void store_rounded_part(double* p, const Vec<double>& v, std::int64_t n) { store_part(p, v, n); }
#if defined(__AVX512BW__) && defined(__AVX512VL__)
inline Vec<float> load_wide_part(const BFloat16* p, std::int64_t n) {
  return widen_bfloat16(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
inline Vec<float> load_wide_part(const Half* p, std::int64_t n) {
  return Vec<float>(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p)));
}
inline void store_rounded_part(BFloat16* p, const Vec<float>& v, std::int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), round_to_bfloat16(v));
}
inline void store_rounded_part(Half* p, const Vec<float>& v, std::int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#else
template <class T> inline Vec<float> load_wide_part(const T* p, std::int64_t n) {
  T buffer[Vec<float>::size] = {};
  for (std::int64_t i = 0; i < n; ++i) buffer[i] = p[i];
  return load_wide(buffer);
}
template <class T> inline void store_rounded_part(T* p, const Vec<float>& v, std::int64_t n) {
  T buffer[Vec<float>::size];
  store_rounded(buffer, v);
  for (std::int64_t i = 0; i < n; ++i) p[i] = buffer[i];
}
#endif

// Passed by loops over vectors to their bodies: the same body serves whole vectors and the partial one at the end.
struct WholeVector {
  template <class T> auto load(const T* p) const { return load_wide(p); }
  template <class T> void store(T* p, const Vec<Compute<T>>& v) const { store_rounded(p, v); }
  template <class V> const V& kept(const V& v) const { return v; }
};
struct PartOfVector {
  std::int64_t n;
  template <class T> auto load(const T* p) const { return load_wide_part(p, n); }
  template <class T> void store(T* p, const Vec<Compute<T>>& v) const { store_rounded_part(p, v, n); }
  // 0 beyond the end
  template <class C, class A> auto kept(const xsimd::batch<C, A>& v) const { return keep_part<Sum>(v, n); }
};

// body(lanes, j) for the vectors of C at j = 0, width, ... that cover [0, n).
template <class C, class F> inline void for_vectors(std::int64_t n, const F& body) {
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  std::int64_t j = 0;
  for (; j + width <= n; j += width) body(WholeVector{}, j);
  if (j < n) body(PartOfVector{n - j}, j);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
