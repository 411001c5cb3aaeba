// Deinterleaves pairs in memory to vectors of real and imaginary parts and back, and transposes squares in registers.
#pragma once

#include "core/cpu/transpose.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// re and im of Vec<C>::size pairs.
template <class C> inline void load_pairs(const C* p, Vec<C>& re, Vec<C>& im) {
  constexpr auto w = static_cast<std::int64_t>(Vec<C>::size);
  C a[w], b[w];
  for (std::int64_t l = 0; l < w; ++l) a[l] = p[2 * l], b[l] = p[2 * l + 1];
  re = load(a), im = load(b);
}
template <class C> inline void store_pairs(C* p, const Vec<C>& re, const Vec<C>& im) {
  constexpr auto w = static_cast<std::int64_t>(Vec<C>::size);
  C a[w], b[w];
  store(a, re), store(b, im);
  for (std::int64_t l = 0; l < w; ++l) p[2 * l] = a[l], p[2 * l + 1] = b[l];
}
#if defined(__AVX512F__)
inline void load_pairs(const float* p, Vec<float>& re, Vec<float>& im) {
  const __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  re = Vec<float>(_mm512_permutex2var_ps(a, even, b));
  im = Vec<float>(_mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b));
}
inline void store_pairs(float* p, const Vec<float>& re, const Vec<float>& im) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  _mm512_storeu_ps(p, _mm512_permutex2var_ps(re, low, im));
  _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(re, _mm512_add_epi32(low, _mm512_set1_epi32(8)), im));
}
inline void load_pairs(const double* p, Vec<double>& re, Vec<double>& im) {
  const __m512d a = _mm512_loadu_pd(p), b = _mm512_loadu_pd(p + 8);
  const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
  re = Vec<double>(_mm512_permutex2var_pd(a, even, b));
  im = Vec<double>(_mm512_permutex2var_pd(a, _mm512_add_epi64(even, _mm512_set1_epi64(1)), b));
}
inline void store_pairs(double* p, const Vec<double>& re, const Vec<double>& im) {
  const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  _mm512_storeu_pd(p, _mm512_permutex2var_pd(re, low, im));
  _mm512_storeu_pd(p + 8, _mm512_permutex2var_pd(re, _mm512_add_epi64(low, _mm512_set1_epi64(4)), im));
}
#elif defined(__AVX2__)
inline void load_pairs(const float* p, Vec<float>& re, Vec<float>& im) {
  const __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps(p + 8);
  const __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
  re = Vec<float>(_mm256_shuffle_ps(low, high, 0x88));
  im = Vec<float>(_mm256_shuffle_ps(low, high, 0xdd));
}
inline void store_pairs(float* p, const Vec<float>& re, const Vec<float>& im) {
  const __m256 low = _mm256_unpacklo_ps(re, im), high = _mm256_unpackhi_ps(re, im);
  _mm256_storeu_ps(p, _mm256_permute2f128_ps(low, high, 0x20));
  _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(low, high, 0x31));
}
inline void load_pairs(const double* p, Vec<double>& re, Vec<double>& im) {
  const __m256d a = _mm256_loadu_pd(p), b = _mm256_loadu_pd(p + 4);
  const __m256d low = _mm256_permute2f128_pd(a, b, 0x20), high = _mm256_permute2f128_pd(a, b, 0x31);
  re = Vec<double>(_mm256_unpacklo_pd(low, high));
  im = Vec<double>(_mm256_unpackhi_pd(low, high));
}
inline void store_pairs(double* p, const Vec<double>& re, const Vec<double>& im) {
  const __m256d low = _mm256_unpacklo_pd(re, im), high = _mm256_unpackhi_pd(re, im);
  _mm256_storeu_pd(p, _mm256_permute2f128_pd(low, high, 0x20));
  _mm256_storeu_pd(p + 4, _mm256_permute2f128_pd(low, high, 0x31));
}
#endif

// v[j][i] becomes v[i][j], for as many vectors as one has elements.
template <class C> inline void turn_square(Vec<C>* v) {
  constexpr auto w = static_cast<std::int64_t>(Vec<C>::size);
  C a[w][w], b[w][w];
  for (std::int64_t i = 0; i < w; ++i) store(a[i], v[i]);
  for (std::int64_t i = 0; i < w; ++i)
    for (std::int64_t j = 0; j < w; ++j) b[i][j] = a[j][i];
  for (std::int64_t i = 0; i < w; ++i) v[i] = load(b[i]);
}
#if defined(__AVX2__)
inline void turn_square(Vec<float>* v) {
  transpose::Lanes u[transpose::width];
  for (std::int64_t i = 0; i < transpose::width; ++i) u[i] = v[i];
  transpose::turn_square(u);
  for (std::int64_t i = 0; i < transpose::width; ++i) v[i] = Vec<float>(u[i]);
}
#endif
#if defined(__AVX512F__)
inline void turn_square(Vec<double>* v) {
  __m512d pair[8], four[8];
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm512_unpacklo_pd(v[i], v[i + 1]);      // columns 0, 2, 4, 6 of two rows
    pair[i + 1] = _mm512_unpackhi_pd(v[i], v[i + 1]);  // 1, 3, 5, 7
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      four[i + j] = _mm512_shuffle_f64x2(pair[i + j], pair[i + 2 + j], 0x88);      // columns j, j + 4 of four rows
      four[i + 2 + j] = _mm512_shuffle_f64x2(pair[i + j], pair[i + 2 + j], 0xdd);  // j + 2, j + 6
    }
  }
  for (int j = 0; j < 4; ++j) {
    v[j] = Vec<double>(_mm512_shuffle_f64x2(four[j], four[4 + j], 0x88));
    v[j + 4] = Vec<double>(_mm512_shuffle_f64x2(four[j], four[4 + j], 0xdd));
  }
}
#elif defined(__AVX2__)
inline void turn_square(Vec<double>* v) {
  const __m256d a = _mm256_unpacklo_pd(v[0], v[1]), b = _mm256_unpackhi_pd(v[0], v[1]);
  const __m256d c = _mm256_unpacklo_pd(v[2], v[3]), d = _mm256_unpackhi_pd(v[2], v[3]);
  v[0] = Vec<double>(_mm256_permute2f128_pd(a, c, 0x20));
  v[1] = Vec<double>(_mm256_permute2f128_pd(b, d, 0x20));
  v[2] = Vec<double>(_mm256_permute2f128_pd(a, c, 0x31));
  v[3] = Vec<double>(_mm256_permute2f128_pd(b, d, 0x31));
}
#endif

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
