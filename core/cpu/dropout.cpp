// Dropout by counter. One Philox call gives four elements; they are drawn by logical position, so
// strides and threads do not matter.
#include <algorithm>
#include <cmath>

#include "core/cpu/philox.h"
#include "core/cpu/simd.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(dropout, const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class C> void drop(const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset) {
  const Dims* strides[] = {&x.strides};
  const Loop loop = collapse(x.sizes, strides, 1);
  const bool dense = loop.sizes.rank() == 1;
  const C scale = p < 1 ? static_cast<C>(1 / (1 - p)) : C(0);
  // Kept when the uniform number (bits >> 8) / 2^24 is at least p; compared as integers.
  const auto keep_from = static_cast<std::int32_t>(std::ceil(std::ldexp(static_cast<float>(p), 24)));
  constexpr std::int64_t block = 4 * philox_counters;
  const std::int64_t n = y.numel();
  parallel_for((n + block - 1) / block, grain_size / block, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t bits[block];
    C values[block];
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t count = std::min(block, n - b * block);
      philox_bits(seed, offset + static_cast<std::uint64_t>(b * philox_counters), bits);
      if (dense) {
        load_run(values, x.data, x.dtype, b * block * loop.strides[0][0], loop.strides[0][0], count);
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          std::int64_t rest = b * block + i, at = 0;
          for (int d = x.dim() - 1; d >= 0; --d) {
            at += rest % x.sizes[d] * x.strides[d];
            rest /= x.sizes[d];
          }
          load_run(values + i, x.data, x.dtype, at, 1, 1);
        }
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const C kept = values[i] * scale;
        values[i] = static_cast<std::int32_t>(bits[i] >> 8) >= keep_from ? kept : C(0);
      }
      store_run(y.data, y.dtype, b * block, 1, values, count);
    }
  });
}

}  // namespace

void dropout(const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset) {
  if (x.dtype == f64) drop<double>(y, x, p, seed, offset);
  else drop<float>(y, x, p, seed, offset);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
