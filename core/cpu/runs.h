// Copies and fills short contiguous runs, for which calling the C library takes longer than the copy itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace mantissa::cpu_backend::MANTISSA_ISA {

// With whole vectors, of which the last may overlap the one before it: [0, n), n at least `width`.
template <class F> inline void move_run(std::int64_t n, std::int64_t width, const F& move) {
  for (std::int64_t i = 0; i + width < n; i += width) move(i);
  move(n - width);
}

// to and from must not overlap.
template <class Word> inline void copy_run(Word* to, const Word* from, std::int64_t n) {
  [[maybe_unused]] constexpr std::int64_t bytes = static_cast<std::int64_t>(sizeof(Word)), many = 1024 / bytes;
  // If source and destination differ in alignment to cache lines, the library's function took up to ten times as long
  // on Zen 4.
  [[maybe_unused]] const bool vectors =
      n <= many || (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % 64 != 0;
#if defined(__AVX512F__)
  if (n >= 64 / bytes && vectors)
    return move_run(n, 64 / bytes, [=](std::int64_t i) { _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i)); });
#endif
#if defined(__AVX2__)
  if (n >= 32 / bytes && vectors)
    return move_run(n, 32 / bytes, [=](std::int64_t i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
    });
#endif
#if defined(__SSE2__)
  if (n >= 16 / bytes && n <= 64 / bytes)
    return move_run(n, 16 / bytes, [=](std::int64_t i) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    });
#endif
  if (n < 8) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(Word));
}
// `rows` runs of n elements, to_step and from_step elements apart; what depends on n is decided once.
template <class Word>
inline void copy_rows(Word* to, std::int64_t to_step, const Word* from, std::int64_t from_step, std::int64_t n,
                      std::int64_t rows) {
  const auto each = [&](const auto& copy) {
    for (std::int64_t i = 0; i < rows; ++i) copy(to + i * to_step, from + i * from_step);
  };
#if defined(__SSE2__)
  [[maybe_unused]] constexpr std::int64_t bytes = static_cast<std::int64_t>(sizeof(Word));
  const auto two = [&]<class Vector>(std::int64_t width) {  // which may overlap
    each([=](Word* y, const Word* x) {
      Vector first, last;
      std::memcpy(&first, x, sizeof first);
      std::memcpy(&last, x + n - width, sizeof last);
      std::memcpy(y, &first, sizeof first);
      std::memcpy(y + n - width, &last, sizeof last);
    });
  };
#if defined(__AVX512F__)
  if (n > 64 / bytes && n <= 128 / bytes) return two.template operator()<__m512i>(64 / bytes);
#endif
#if defined(__AVX2__)
  if (n > 32 / bytes && n <= 64 / bytes) return two.template operator()<__m256i>(32 / bytes);
#endif
  if (n >= 16 / bytes && n <= 32 / bytes) return two.template operator()<__m128i>(16 / bytes);
#endif
  each([n](Word* y, const Word* x) { copy_run(y, x, n); });
}
template <class Word> inline void fill_run(Word* to, Word value, std::int64_t n) {
  if (n >= 8) std::fill_n(to, n, value);
  else for (std::int64_t i = 0; i < n; ++i) to[i] = value;
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
