// Tensors whose channels are innermost in memory (channels-last images, [N, C] matrices) as a dense matrix of pixels by
// channels: loops vectorised over channels, and sums over all pixels per channel. Everything is cut into blocks of rows
// by shape alone; sums of blocks are combined in double precision, in order.
#pragma once

#include <memory>
#include <vector>

#include "core/cpu/vectors.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

struct ChannelRows {
  std::int64_t pixels, channels;
  std::int64_t joined;   // pixels per row: with few channels one pixel would not fill a vector
  std::int64_t columns;  // of a row: joined * channels
  std::int64_t block;    // rows that stay in a core's cache while a block is read twice
  std::int64_t blocks;

  ChannelRows(std::int64_t pixels, std::int64_t channels) : pixels(pixels), channels(channels) {
    joined = channels >= 64 || channels == 0 ? 1 : channels % 16 == 0 ? (63 + channels) / channels : 16;
    columns = joined * channels;
    block = std::max<std::int64_t>(16, 16384 / std::max<std::int64_t>(1, columns));
    const std::int64_t rows = (pixels + joined - 1) / joined;
    blocks = (rows + block - 1) / block;
  }
  std::int64_t first_pixel(std::int64_t b) const { return b * block * joined; }
  std::int64_t pixels_in(std::int64_t b) const { return std::min(pixels - first_pixel(b), block * joined); }

  // f(block) for all blocks, in parallel.
  template <class F> void for_blocks(const F& f) const {
    parallel_for(blocks, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, block * columns)),
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t b = first; b < last; ++b) f(b);
                 });
  }
  // body(lanes, offset, j) for every vector of block b: `offset` of its first element in the matrix, j its column.
  template <class C, class F> void for_elements(std::int64_t b, const F& body) const {
    const std::int64_t begin = first_pixel(b) * channels, end = begin + pixels_in(b) * channels;
    for (std::int64_t row = begin; row < end; row += columns) {
      for_vectors<C>(std::min(columns, end - row), [&](const auto& lanes, std::int64_t j) { body(lanes, row + j, j); });
    }
  }
  // sums[k * columns + j] = sum over the rows of block b of element k of at(lanes, offset, j), an array of k vectors.
  template <int k, class C, class F> void sum_columns(std::int64_t b, C* sums, const F& at) const {
    constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
    constexpr int side_by_side = k == 1 ? 8 : 4;  // vectors whose sums are kept in registers
    const std::int64_t begin = first_pixel(b) * channels, elements = pixels_in(b) * channels;
    const std::int64_t rows = elements / columns, rest = elements % columns;
    std::int64_t j = 0;
    for (; j + side_by_side * width <= columns; j += side_by_side * width) {
      Vec<C> sum[side_by_side][k];
      for (auto& one : sum) for (auto& v : one) v = Vec<C>(C(0));
      for (std::int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
        for (int u = 0; u < side_by_side; ++u) {
          const auto v = at(WholeVector{}, begin + r * columns + j + u * width, j + u * width);
#pragma GCC unroll 2
          for (int i = 0; i < k; ++i) sum[u][i] = sum[u][i] + v[i];
        }
      }
      for (int u = 0; u < side_by_side; ++u)
        for (int i = 0; i < k; ++i) store(sums + i * columns + j + u * width, sum[u][i]);
    }
    for (; j < columns; j += width) {
      const auto add_up = [&](const auto& lanes) {
        Vec<C> sum[k];
        for (auto& v : sum) v = Vec<C>(C(0));
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto v = at(lanes, begin + r * columns + j, j);
          for (int i = 0; i < k; ++i) sum[i] = sum[i] + v[i];
        }
        for (int i = 0; i < k; ++i) lanes.store(sums + i * columns + j, sum[i]);
      };
      if (j + width <= columns) add_up(WholeVector{});
      else add_up(PartOfVector{columns - j});
    }
    for_vectors<C>(rest, [&](const auto& lanes, std::int64_t c) {
      const auto v = at(lanes, begin + rows * columns + c, c);
      for (int i = 0; i < k; ++i) lanes.store(sums + i * columns + c, lanes.load(sums + i * columns + c) + v[i]);
    });
  }
  // Adds up the parts of a row that belong to the same channel: columns -> channels.
  template <class C> void fold_joined(const C* sums, C* result) const {
    std::copy_n(sums, channels, result);
    for (std::int64_t q = 1; q < joined; ++q) {
      for (std::int64_t c = 0; c < channels; ++c) result[c] += sums[q * channels + c];
    }
  }
  // Repeats one number per channel for all columns of a row.
  template <class C> void repeat(const C* values, C* repeated) const {
    for (std::int64_t q = 0; q < joined; ++q) std::copy_n(values, channels, repeated + q * channels);
  }
  template <class C> std::vector<C> repeat(const std::vector<C>& values) const {
    std::vector<C> repeated(static_cast<std::size_t>(columns));
    repeat(values.data(), repeated.data());
    return repeated;
  }
};

// For each channel, k sums over all pixels of at(lanes, offset, j) as in sum_columns: result[i * channels + c].
template <int k, class C, class F> std::vector<double> sum_over_pixels(const ChannelRows& s, const F& at) {
  const std::int64_t n = k * s.channels;
  std::unique_ptr<C[]> partial(new C[static_cast<std::size_t>(s.blocks * n)]);
  s.for_blocks([&](std::int64_t b) {
    if (s.joined == 1) return s.template sum_columns<k>(b, partial.get() + b * n, at);
    C sums[k * 64 * 16];  // joined * channels is less than 64 * 16
    s.template sum_columns<k>(b, sums, at);
    for (int i = 0; i < k; ++i) s.fold_joined(sums + i * s.columns, partial.get() + b * n + i * s.channels);
  });
  std::vector<double> total(static_cast<std::size_t>(n), 0.0);
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    for (std::int64_t c = 0; c < n; ++c) total[static_cast<std::size_t>(c)] += static_cast<double>(partial[b * n + c]);
  }
  return total;
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
