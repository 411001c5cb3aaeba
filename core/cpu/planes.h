// Tensors as planes: x as [samples, channels, inner] with the elements of one channel of a sample contiguous. Sums over
// all elements of each channel. The counterpart of core/cpu/channels.h: cut into blocks by shape alone, which stay in a
// core's cache while they are read twice; sums of blocks are combined in double precision, in order.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/cpu/vectors.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

struct Planes {
  std::int64_t samples = 0, channels = 0, inner = 1;
  std::int64_t together = 1;  // samples per block (of one channel), if planes are short
  std::int64_t length = 1;    // elements of a plane per block, if planes are long
  std::int64_t pieces = 1;    // blocks per plane
  std::int64_t blocks = 0;    // blocks per channel

  explicit Planes(const View& x) : samples(x.sizes[0]), channels(x.sizes[1]) {
    for (int d = 2; d < x.dim(); ++d) inner *= x.sizes[d];
    if (count() == 0) return;
    constexpr std::int64_t block = 16384;
    together = std::max<std::int64_t>(1, block / inner);
    pieces = (inner + block - 1) / block;
    length = (inner + pieces - 1) / pieces;
    blocks = (samples + together - 1) / together * pieces;
  }
  std::int64_t count() const { return samples * inner; }
  std::int64_t first_sample(std::int64_t b) const { return b / pieces * together; }
  std::int64_t samples_in(std::int64_t b) const { return std::min(together, samples - first_sample(b)); }
  std::int64_t begin(std::int64_t b) const { return b % pieces * length; }
  std::int64_t elements_in(std::int64_t b) const { return samples_in(b) * std::min(length, inner - begin(b)); }

  // f(block, channel) for all blocks of all channels, in parallel.
  template <class F> void for_blocks(const F& f) const {
    const std::int64_t work = std::min(together, samples) * length;
    parallel_for(blocks * channels, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, work)),
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t i = first; i < last; ++i) f(i / channels, i % channels);
                 });
  }
  // k sums over block b of channel c, of at(lanes, offset), an array of k vectors.
  template <int k, class C, class F> std::array<C, k> sum_block(std::int64_t b, std::int64_t c, const F& at) const {
    constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
    const std::int64_t n = std::min(length, inner - begin(b));
    Vec<C> sum[4][k];  // independent accumulators
    for (auto& one : sum) for (auto& v : one) v = Vec<C>(C(0));
    const auto add = [&](int u, const auto& lanes, std::int64_t offset) {
      const auto v = at(lanes, offset);
      for (int i = 0; i < k; ++i) sum[u][i] = sum[u][i] + lanes.kept(v[i]);
    };
    for (std::int64_t s = 0; s < samples_in(b); ++s) {
      const std::int64_t from = ((first_sample(b) + s) * channels + c) * inner + begin(b);
      std::int64_t i = 0;
      for (; i + 4 * width <= n; i += 4 * width) {
        add(0, WholeVector{}, from + i);
        add(1, WholeVector{}, from + i + width);
        add(2, WholeVector{}, from + i + 2 * width);
        add(3, WholeVector{}, from + i + 3 * width);
      }
      if (i + width <= n) add(0, WholeVector{}, from + i), i += width;
      if (i + width <= n) add(1, WholeVector{}, from + i), i += width;
      if (i + width <= n) add(2, WholeVector{}, from + i), i += width;
      if (i < n) add(3, PartOfVector{n - i}, from + i);
    }
    std::array<C, k> result;
    for (std::size_t i = 0; i < k; ++i)
      result[i] = fold_lanes<Sum, C>((sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]));
    return result;
  }
  // For each channel, k sums over all its elements of at(lanes, offset, channel): result[i * channels + c].
  template <int k, class C, class F> std::vector<double> sum_channels(const F& at) const {
    std::unique_ptr<std::array<C, k>[]> partial(new std::array<C, k>[static_cast<std::size_t>(blocks * channels)]);
    for_blocks([&](std::int64_t b, std::int64_t c) {
      partial[static_cast<std::size_t>(b * channels + c)] =
          sum_block<k, C>(b, c, [&](const auto& lanes, std::int64_t offset) { return at(lanes, offset, c); });
    });
    std::vector<double> total(static_cast<std::size_t>(k * channels), 0.0);
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::size_t i = 0; i < k; ++i)
          total[i * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)] +=
              static_cast<double>(partial[static_cast<std::size_t>(b * channels + c)][i]);
      }
    }
    return total;
  }
};

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
