// Dropout with counter-based random numbers. One Philox call gives four elements, by logical position, so results do
// not depend on strides or threads. y may be x.
#include <algorithm>
#include <cmath>

#include "core/cpu/philox.h"
#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace mantissa {
MANTISSA_KERNEL(dropout, const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t block = 4 * philox_counters;

// Kept when the uniform number (bits >> 8) / 2^24 is at least p; compared as integers.
std::int32_t first_kept(double p) {
  return static_cast<std::int32_t>(std::ceil(std::ldexp(static_cast<float>(p), 24)));
}

// For channels-last x and y: the mask is drawn for some channels of an image, whose logical positions are contiguous,
// and then applied pixel by pixel.
template <class C>
void drop_channels(const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset) {
  constexpr std::int64_t group = 16;
  const std::int64_t channels = x.size(1), pixels = x.size(2) * x.size(3), groups = (channels + group - 1) / group;
  const C scale = p < 1 ? static_cast<C>(1 / (1 - p)) : C(0);
  const std::int32_t keep_from = first_kept(p);
  const std::int64_t grain = std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, group * pixels));
  parallel_for(x.size(0) * groups, grain, [&](std::int64_t begin, std::int64_t end) {
    ScratchVector<std::uint8_t> kept(static_cast<std::size_t>(group * pixels));  // [pixels, group]
    std::uint32_t bits[block];
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t image = task / groups, from = task % groups * group, width = std::min(group, channels - from);
      const std::int64_t first = (image * channels + from) * pixels, last = first + width * pixels;
      std::int64_t channel = 0, pixel = 0;
      for (std::int64_t i = first; i < last;) {
        philox_bits(seed, offset + static_cast<std::uint64_t>(i / 4), bits);
        for (std::int64_t b = i % 4; b < block && i < last; ++b, ++i) {
          kept[static_cast<std::size_t>(pixel * group + channel)] =
              static_cast<std::int32_t>(bits[b] >> 8) >= keep_from;
          if (++pixel == pixels) pixel = 0, ++channel;
        }
      }
      C values[group];
      for (std::int64_t q = 0; q < pixels; ++q) {
        const std::int64_t at = (image * pixels + q) * channels + from;
        load_run(values, x.data, x.dtype, at, 1, width);
        for (std::int64_t c = 0; c < width; ++c) {
          const C scaled = values[c] * scale;
          values[c] = kept[static_cast<std::size_t>(q * group + c)] ? scaled : C(0);
        }
        store_run(y.data, y.dtype, at, 1, values, width);
      }
    }
  });
}

template <class C> void drop(const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset) {
  const std::int64_t n = y.numel();
  if (n == 0) return;
  if (!y.is_contiguous()) return drop_channels<C>(y, x, p, seed, offset);
  const Dims* strides[] = {&x.strides};
  const Loop loop = collapse(x.sizes, strides, 1);
  if (loop.sizes.rank() > 1) {
    const Tensor rows = Tensor::allocate(x.sizes, x.dtype);
    copy(rows.view(), x);
    return drop<C>(y, rows.view(), p, seed, offset);
  }
  const std::int64_t stride = loop.strides[0][0];
  const C scale = p < 1 ? static_cast<C>(1 / (1 - p)) : C(0);
  const std::int32_t keep_from = first_kept(p);
  parallel_for((n + block - 1) / block, grain_size / block, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t bits[block];
    C values[block];
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t count = std::min(block, n - b * block);
      philox_bits(seed, offset + static_cast<std::uint64_t>(b * philox_counters), bits);
      load_run(values, x.data, x.dtype, b * block * stride, stride, count);
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
