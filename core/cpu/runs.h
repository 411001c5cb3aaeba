// Copying and filling short runs of memory, for which a call of the C library takes longer than the bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mantissa::cpu_backend::MANTISSA_ISA {

// to and from do not overlap.
template <class Word> inline void copy_run(Word* to, const Word* from, std::int64_t n) {
#if defined(__AVX2__)
  constexpr std::int64_t vector = 32 / static_cast<std::int64_t>(sizeof(Word));
  if (n >= vector && n <= 32 * vector) {  // the last vector may repeat what the one before it has copied
    const auto move = [=](std::int64_t i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
    };
    for (std::int64_t i = 0; i + vector < n; i += vector) move(i);
    return move(n - vector);
  }
#endif
  if (n < 8) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(Word));
}
template <class Word> inline void fill_run(Word* to, Word value, std::int64_t n) {
  if (n >= 8) std::fill_n(to, n, value);
  else for (std::int64_t i = 0; i < n; ++i) to[i] = value;
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
