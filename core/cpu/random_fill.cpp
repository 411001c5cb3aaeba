// Random tensors, many Philox counters in parallel: the same numbers as draw_four (core/distribution.h), except that
// normal ones use vector versions of log, cos and sin.
#include <algorithm>
#include <cmath>

#include "core/cpu/philox.h"
#include "core/cpu/simd.h"
#include "core/distribution.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(random_fill, const View& y, Distribution distribution, double low, double range, std::uint64_t seed,
                std::uint64_t offset)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr int block = 4 * philox_counters;
using Bits = std::uint32_t[block];

// Box-Muller transform of pairs of words; u > 0.
void draw_normal(const Bits& bits, double* v) {
  using V = Vec<double>;
  constexpr int pairs = block / 2, width = static_cast<int>(V::size);
  double u[pairs], angle[pairs];
  for (int i = 0; i < pairs; ++i) {
    u[i] = (static_cast<double>(bits[2 * i]) + 0.5) * 0x1p-32;
    angle[i] = static_cast<double>(bits[2 * i + 1]) * (6.283185307179586 * 0x1p-32);
  }
  for (int i = 0; i < pairs; i += width) {
    const V r = xsimd::sqrt(V(-2.0) * xsimd::log(load(u + i)));
    const auto [sine, cosine] = xsimd::sincos(load(angle + i));
    store(u + i, r * cosine);
    store(angle + i, r * sine);
  }
  for (int i = 0; i < pairs; ++i) v[2 * i] = u[i], v[2 * i + 1] = angle[i];
}

}  // namespace

// y is contiguous, f32, f64 or i64.
void random_fill(const View& y, Distribution distribution, double low, double range, std::uint64_t seed,
                 std::uint64_t offset) {
  const std::int64_t n = y.numel();
  const auto fill = [&]<class T> {
    parallel_for((n + block - 1) / block, grain_size / block, [&](std::int64_t begin, std::int64_t end) {
      Bits bits;
      double v[block];
      for (std::int64_t b = begin; b < end; ++b) {
        philox_bits(seed, offset + static_cast<std::uint64_t>(b * philox_counters), bits);
        T* out = y.as<T>() + b * block;
        const std::int64_t count = std::min<std::int64_t>(block, n - b * block);
        if (distribution == Distribution::uniform) {
          const int dropped = static_cast<int>(low);  // at least 8, so what remains is a positive int
          const T unit = static_cast<T>(std::ldexp(1.0, dropped - 32));
          for (std::int64_t i = 0; i < count; ++i)
            out[i] = static_cast<T>(static_cast<std::int32_t>(bits[i] >> dropped)) * unit;
          continue;
        }
        if (distribution == Distribution::normal) draw_normal(bits, v);
        else for (int i = 0; i < block; ++i) v[i] = low + std::floor(static_cast<double>(bits[i]) * 0x1p-32 * range);
        for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(v[i]);
      }
    });
  };
  if (y.dtype == f64) fill.template operator()<double>();
  else if (y.dtype == f32) fill.template operator()<float>();
  else fill.template operator()<std::int64_t>();
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
