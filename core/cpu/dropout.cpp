// Dropout by counter. One Philox call gives four elements; they are drawn by logical position, so
// strides and threads do not matter.
#include <algorithm>

#include "core/cpu/simd.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(dropout, const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr int lanes = 32;  // counters computed side by side, so that the rounds vectorise

// Words of `lanes` counters from `first`: Philox 4x32-10 as in core/random.h.
void philox_lanes(std::uint64_t seed, std::uint64_t first, std::uint32_t (&out)[4][lanes]) {
  for (int i = 0; i < lanes; ++i) {
    const std::uint64_t counter = first + static_cast<std::uint64_t>(i);
    out[0][i] = static_cast<std::uint32_t>(counter);
    out[1][i] = static_cast<std::uint32_t>(counter >> 32);
    out[2][i] = out[3][i] = 0;
  }
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < lanes; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53} * out[0][i], b = std::uint64_t{0xCD9E8D57} * out[2][i];
      const std::uint32_t c1 = out[1][i], c3 = out[3][i];
      out[0][i] = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
      out[1][i] = static_cast<std::uint32_t>(b);
      out[2][i] = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
      out[3][i] = static_cast<std::uint32_t>(a);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

template <class C> void drop(const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset) {
  const Dims* strides[] = {&x.strides};
  const Loop loop = collapse(x.sizes, strides, 1);
  const bool dense = loop.sizes.rank() == 1;
  const C scale = p < 1 ? static_cast<C>(1 / (1 - p)) : C(0);
  const auto keep_from = static_cast<float>(p);  // keep when uniform >= p
  constexpr std::int64_t block = 4 * lanes;
  const std::int64_t n = y.numel();
  parallel_for((n + block - 1) / block, grain_size / block, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[4][lanes];
    C values[block];
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t count = std::min(block, n - b * block);
      philox_lanes(seed, offset + static_cast<std::uint64_t>(b * lanes), words);
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
        const float u = static_cast<float>(words[i & 3][i >> 2] >> 8) * 0x1p-24f;
        values[i] = u >= keep_from ? values[i] * scale : C(0);
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
