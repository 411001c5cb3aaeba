// core/depthwise.h. Vectorised over channels; the sums of up to four taps stay in registers over some rows of an image,
// which stay in cache until all taps have used them.
#include "core/depthwise.h"

#include <algorithm>

#include "core/cpu/vectors_together.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using V = Vec<float>;
constexpr auto width = static_cast<std::int64_t>(V::size);
constexpr int side_by_side = width >= 16 ? 4 : 2;  // vectors of channels, as many as there are registers for

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

struct Span { std::int64_t begin, end; };
Span both(const Span& a, const Span& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Uninitialised memory for n numbers.
class Room {
 public:
  float* of(std::int64_t n) {
    if (!memory_.defined() || memory_.numel() < n) memory_ = Tensor::allocate({n}, f32);
    return memory_.data<float>();
  }

 private:
  Tensor memory_;
};

// Some channels of some rows of an image, in f32: in place or, for f16 and bf16, in `room`.
struct Slice {
  const float* first = nullptr;     // of row 0, even if that is not part of the slice
  std::int64_t pitch = 0, row = 0;  // strides of pixels and rows, in elements
  const float* at(std::int64_t y, std::int64_t x) const { return first + y * row + x * pitch; }
};
template <class T>
Slice slice(const View& images, std::int64_t image, const Span& rows, const Span& channels, Room& room) {
  const std::int64_t all = images.size(1), columns = images.size(3), count = channels.end - channels.begin;
  const T* from = images.as<const T>() + image * images.size(2) * columns * all + channels.begin;
  if constexpr (std::is_same_v<T, float>) {
    return {from, all, columns * all};
  } else {
    const std::int64_t first = rows.begin * columns, last = std::max(first, rows.end * columns);
    float* to = room.of((last - first) * count);
    const auto widen = [&](const T* run, float* wide, std::int64_t n) {
      for_vectors<float>(n, [&](const auto& lanes, std::int64_t j) { lanes.store(wide + j, lanes.load(run + j)); });
    };
    if (count == all) widen(from + first * all, to, (last - first) * all);
    else for (std::int64_t p = first; p < last; ++p) widen(from + p * all, to + (p - first) * count, count);
    return {to - first * count, count, columns * count};
  }
}

// The input rows covered by the windows of some output rows.
Span rows_under(const ConvShape& s, const Span& rows) {
  const std::int64_t bottom = (rows.end - 1) * s.stride[0] - s.padding[0] + (s.kernel[0] - 1) * s.dilation[0];
  return {std::max<std::int64_t>(0, rows.begin * s.stride[0] - s.padding[0]), std::min(s.in[0], bottom + 1)};
}

// Contribution of some output rows of one image to the sums [taps, channels] of a block of channels.
struct Correlation {
  const ConvShape& s;
  const Slice &x, &g;
  const Span& rows;
  std::int64_t count;
  float* sums;  // of the block's first channel

  // Adds the products for taps kx, ..., kx + taps - 1 of row ky of the kernel, over the columns in `range`.
  template <int taps, int vectors, class Lanes>
  void add(const Lanes& lanes, std::int64_t ky, std::int64_t kx, const Span& range, std::int64_t j) const {
    V sum[taps][vectors];
    for (auto& tap : sum) for (auto& v : tap) v = V(0.0f);
    for (std::int64_t oy = rows.begin; oy < rows.end; ++oy) {
      const std::int64_t iy = oy * s.stride[0] - s.padding[0] + ky * s.dilation[0];
      if (iy < 0 || iy >= s.in[0]) continue;
      const float* from = x.at(iy, range.begin * s.stride[1] - s.padding[1] + kx * s.dilation[1]) + j;
      const float* to = g.at(oy, range.begin) + j;
      for (std::int64_t ox = range.begin; ox < range.end; ++ox, from += s.stride[1] * x.pitch, to += g.pitch) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          const V gradient = lanes.load(to + v * width);
#pragma GCC unroll 4
          for (int k = 0; k < taps; ++k)
            sum[k][v] = xsimd::fma(lanes.load(from + k * s.dilation[1] * x.pitch + v * width), gradient, sum[k][v]);
        }
      }
    }
    for (int k = 0; k < taps; ++k) {
      float* total = sums + (ky * s.kernel[1] + kx + k) * s.in_channels + j;
      for (int v = 0; v < vectors; ++v)
        lanes.store(total + v * width, lanes.load(static_cast<const float*>(total) + v * width) + sum[k][v]);
    }
  }
  template <int taps> void taps_of_row(std::int64_t ky, std::int64_t kx) const {
    const auto columns = [&](std::int64_t k) {  // output columns whose tap k is inside the image
      const std::int64_t first = k * s.dilation[1] - s.padding[1];
      return both({ceil_div(-first, s.stride[1]), ceil_div(s.in[1] - first, s.stride[1])}, {0, s.out[1]});
    };
    Span all = columns(kx);
    for (int k = 1; k < taps; ++k) all = both(all, columns(kx + k));
    for_vectors_together<side_by_side, float>(count, [&]<int n>(const auto& lanes, std::int64_t j) {
      add<taps, n>(lanes, ky, kx, all, j);
      for (int k = 0; k < taps; ++k) {  // the columns near the edges that only some of the taps have
        const Span own = columns(kx + k);
        if (own.begin < all.begin) add<1, n>(lanes, ky, kx + k, {own.begin, std::min(own.end, all.begin)}, j);
        if (own.end > all.end) add<1, n>(lanes, ky, kx + k, {std::max(own.begin, all.end), own.end}, j);
      }
    });
  }
  void run() const {
    for (std::int64_t ky = 0; ky < s.kernel[0]; ++ky) {
      std::int64_t kx = 0;
      for (; kx + 4 <= s.kernel[1] && kx + 5 != s.kernel[1]; kx += 4) taps_of_row<4>(ky, kx);
      for (; kx + 3 <= s.kernel[1]; kx += 3) taps_of_row<3>(ky, kx);
      for (; kx + 2 <= s.kernel[1]; kx += 2) taps_of_row<2>(ky, kx);
      for (; kx < s.kernel[1]; ++kx) taps_of_row<1>(ky, kx);
    }
  }
};

// The rows of all images are cut into parts with separate sums.
template <class T> void weight_gradient(const ConvShape& s, const View& y, const View& a, const View& b) {
  constexpr std::int64_t most_parts = 8, block = 2 * side_by_side * width;
  constexpr std::int64_t near = 32 << 10;  // elements of x and g that stay in cache for all taps
  const std::int64_t channels = s.in_channels, blocks = (channels + block - 1) / block, weights = s.taps() * channels;
  const std::int64_t rows = s.batch * s.out[0];
  const std::int64_t parts =
      std::clamp<std::int64_t>(rows * s.out[1] * channels / grain_size, 1, std::min(most_parts, rows));
  const std::int64_t step = (rows + parts - 1) / parts;
  const std::int64_t together = std::clamp<std::int64_t>(near / (block * s.out[1]), 1, s.out[0]);
  const Tensor memory = Tensor::allocate({parts, weights}, f32);
  float* partial = memory.data<float>();
  parallel_for(parts * blocks, 1, [&](std::int64_t first, std::int64_t last) {
    Room x_room, g_room;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t part = i / blocks, c = i % blocks * block;
      const Span some{c, std::min(channels, c + block)};
      float* sums = partial + part * weights + c;
      for (std::int64_t tap = 0; tap < s.taps(); ++tap) std::fill_n(sums + tap * channels, some.end - c, 0.0f);
      const std::int64_t stop = std::min(rows, (part + 1) * step);
      for (std::int64_t r = part * step, next = r; r < stop; r = next) {
        const std::int64_t image = r / s.out[0], begin = r % s.out[0];
        const Span here{begin, std::min({begin + together, s.out[0], begin + stop - r})};
        next = r + here.end - here.begin;
        const Slice x = slice<T>(a, image, rows_under(s, here), some, x_room);
        const Slice g = slice<T>(b, image, here, some, g_room);
        Correlation{s, x, g, here, some.end - c, sums}.run();
      }
    }
  });
  float* total = y.as<float>();
  parallel_for(weights, grain_size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) total[i] = partial[i];
    for (std::int64_t p = 1; p < parts; ++p) {
      for (std::int64_t i = begin; i < end; ++i) total[i] += partial[p * weights + i];
    }
  });
}

}  // namespace

void depthwise_weight_gradient(const ConvShape& s, const View& y, const View& a, const View& b) {
  visit_floating(a.dtype, [&]<class T> {
    if constexpr (!std::is_same_v<T, double>) weight_gradient<T>(s, y, a, b);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
