// Philox 4x32-10 (core/random.h) for many counters in parallel: used by dropout. A 64-bit lane holds one 32-bit word of
// one counter, as the processor's widening multiplication reads it.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mantissa::cpu_backend::MANTISSA_ISA {

#if defined(__AVX512F__)
inline constexpr int philox_width = 8;
#elif defined(__AVX2__)
inline constexpr int philox_width = 4;
#else
inline constexpr int philox_width = 2;
#endif
using PhiloxLanes [[gnu::vector_size(8 * philox_width)]] = std::uint64_t;

// Products of the low 32 bits of each lane. (As a plain multiplication it would compile to a slow 64-bit one.)
inline PhiloxLanes multiply_low(PhiloxLanes a, PhiloxLanes b) {
#if defined(__AVX512F__)
  return (PhiloxLanes)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (PhiloxLanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
  return (PhiloxLanes)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

#if defined(__clang__)  // g++ has this builtin from version 12 on
#define MANTISSA_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MANTISSA_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, PhiloxLanes{__VA_ARGS__})
#endif

// bits[4 * i + w] = word w of counter first + i, for i in [0, counters).
inline constexpr int philox_counters = 32;
inline void philox_bits(std::uint64_t seed, std::uint64_t first, std::uint32_t (&bits)[4 * philox_counters]) {
  using V = PhiloxLanes;
  constexpr int w = philox_width, groups = 4 * w <= philox_counters ? 4 : philox_counters / w;  // in flight together
  static_assert(philox_counters % (groups * w) == 0);
  const V low = V{} + 0xffffffffu, multiplier0 = V{} + 0xD2511F53u, multiplier2 = V{} + 0xCD9E8D57u;
  for (int begin = 0; begin < philox_counters; begin += groups * w) {
    V c0[groups], c1[groups], c2[groups], c3[groups];
    for (int g = 0; g < groups; ++g) {
      for (int i = 0; i < w; ++i) c0[g][i] = first + static_cast<std::uint64_t>(begin + g * w + i);
      c1[g] = c0[g] >> 32;
      c2[g] = c3[g] = V{};
    }
    std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const V key0 = V{} + k0, key1 = V{} + k1;
      for (int g = 0; g < groups; ++g) {
        const V a = multiply_low(c0[g], multiplier0), b = multiply_low(c2[g], multiplier2);
        c0[g] = (b >> 32) ^ c1[g] ^ key0;  // the high half of a lane is never read
        c2[g] = (a >> 32) ^ c3[g] ^ key1;
        c1[g] = b;
        c3[g] = a;
      }
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    for (int g = 0; g < groups; ++g) {  // two words form a lane of the result (little endian); the pairs alternate
      const V pair01 = (c0[g] & low) | (c1[g] << 32), pair23 = (c2[g] & low) | (c3[g] << 32);
      V out[2];
#if defined(__AVX512F__)
      out[0] = MANTISSA_SHUFFLE(pair01, pair23, 0, 8, 1, 9, 2, 10, 3, 11);
      out[1] = MANTISSA_SHUFFLE(pair01, pair23, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined(__AVX2__)
      out[0] = MANTISSA_SHUFFLE(pair01, pair23, 0, 4, 1, 5);
      out[1] = MANTISSA_SHUFFLE(pair01, pair23, 2, 6, 3, 7);
#else
      out[0] = V{pair01[0], pair23[0]};
      out[1] = V{pair01[1], pair23[1]};
#endif
      __builtin_memcpy(bits + 4 * (begin + g * w), out, sizeof out);
    }
  }
}
#undef MANTISSA_SHUFFLE

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
