// The two 16-bit floats as storage types. Arithmetic is never done in them: a kernel loads, widens to float, computes
// and rounds once when storing. Conversions round to nearest even and keep NaN, infinities and subnormals (IEEE 754
// binary16; bfloat16 as the upper half of a float). Device code uses the GPU's own conversions, which round the same
// way; only the bits of a NaN differ.
#pragma once

#include <bit>
#include <cstdint>

#include "core/host_device.h"

namespace mantissa {

MANTISSA_HD constexpr float half_to_float(std::uint16_t h) {
#if defined(__CUDA_ARCH__)
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
#else
  const std::uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const int shift = std::countl_zero(mantissa) - 21;  // subnormal: normalise, leading 1 to bit 10
  return std::bit_cast<float>(sign | ((113 - static_cast<std::uint32_t>(shift)) << 23) |
                              (((mantissa << shift) & 1023) << 13));
#endif
}

MANTISSA_HD constexpr std::uint16_t float_to_half(float f) {
#if defined(__CUDA_ARCH__)
  std::uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  const std::uint32_t x = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (x >> 16) & 0x8000u, magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // >= 65520
  if (magnitude >= 0x38800000u) {  // normal: drop 13 bits, ties to even
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  if (magnitude <= 0x33000000u) return static_cast<std::uint16_t>(sign);  // <= 2^-25 rounds to 0
  const std::uint32_t full = (magnitude & 0x7fffffu) | 0x800000u;
  const int shift = 126 - static_cast<int>(magnitude >> 23);  // subnormal: 14 .. 24
  const std::uint32_t kept = full >> shift, rest = full & ((1u << shift) - 1), tie = 1u << (shift - 1);
  return static_cast<std::uint16_t>(sign | (kept + (rest > tie || (rest == tie && (kept & 1)))));
#endif
}

MANTISSA_HD constexpr float bfloat16_to_float(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}
MANTISSA_HD constexpr std::uint16_t float_to_bfloat16(float f) {
#if defined(__CUDA_ARCH__)
  std::uint16_t b;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(f));
  return b;
#else
  const std::uint32_t x = std::bit_cast<std::uint32_t>(f);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((x >> 16) | 0x40u);  // NaN
  return static_cast<std::uint16_t>((x + 0x7fffu + ((x >> 16) & 1)) >> 16);
#endif
}

struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  MANTISSA_HD constexpr Half(float f) : bits(float_to_half(f)) {}
  MANTISSA_HD constexpr operator float() const { return half_to_float(bits); }
};
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  MANTISSA_HD constexpr BFloat16(float f) : bits(float_to_bfloat16(f)) {}
  MANTISSA_HD constexpr operator float() const { return bfloat16_to_float(bits); }
};

}  // namespace mantissa
