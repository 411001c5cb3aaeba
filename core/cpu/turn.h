// Transposes squares of words in registers, for copies between layouts, with whole-vector loads and stores.
#pragma once

#include "core/cpu/transpose.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::transpose {

#if defined(__AVX2__)
// to[j * to_row + i] = from[i * from_row + j] for j < width and i < run<Word>; loads and stores whole vectors.
template <class Word> inline constexpr std::int64_t run = width * 4 / static_cast<std::int64_t>(sizeof(Word));
inline void turn_block(const std::uint32_t* from, std::int64_t from_row, std::uint32_t* to, std::int64_t to_row) {
  Lanes v[width];
  for (std::int64_t i = 0; i < width; ++i) v[i] = load(reinterpret_cast<const float*>(from + i * from_row));
  turn_square(v);
  for (std::int64_t j = 0; j < width; ++j) store(reinterpret_cast<float*>(to + j * to_row), V(v[j]));
}
inline void turn_block(const std::uint16_t* from, std::int64_t from_row, std::uint16_t* to, std::int64_t to_row) {
  Lanes v[width];
  for (std::int64_t i = 0; i < width; ++i) {  // rows 2 i and 2 i + 1 as one row of words
    const std::uint16_t* first = from + 2 * i * from_row;
#if defined(__AVX512F__)
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)));
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first + from_row)));
    v[i] = _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
#else
    const __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first)));
    const __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first + from_row)));
    v[i] = _mm256_castsi256_ps(_mm256_or_si256(low, _mm256_slli_epi32(high, 16)));
#endif
  }
  turn_square(v);
  for (std::int64_t j = 0; j < width; ++j) store(reinterpret_cast<float*>(to + j * to_row), V(v[j]));
}
#endif

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::transpose
