// The transforms of F(4x4, 3x3), and reading and writing image tiles through them.
//
// In one dimension, with the points 0, a, -a, b, -b, infinity, four results y of a correlation of six values d with
// three weights g are  y = A^T [(G g) * (B^T d)];  in two dimensions the same is done to rows, then to columns.
// The gradient of the weights is the transposed algorithm:  dg = G^T [(A dy) * (B^T d)].
// Lavin & Gray take a = 1, b = 2. Here a = 5/8, b = 3/2, which are exact, cost the same and have half of the rounding
// error (rms; of eight pairs tried for 16 to 512 channels only 3/4, 3/2 came as close): powers of b enlarge errors on
// the way back, powers of 1/a those of the weights.
// (B. Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution, 2018, study the choice.)
// Matrices from the general construction: row p of G is (1, p, p^2) / prod(p - q), of B^T the coefficients of
// prod(x - q), over the other finite points q; of A the powers (1, p, p^2, p^3).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/cpu/vectors.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::winograd_transform {

using V = Vec<float>;
inline constexpr std::int64_t width = static_cast<std::int64_t>(V::size);
inline constexpr int positions = 36;
inline constexpr double a = 0.625, b = 1.5, a2 = a * a, b2 = b * b;

inline V number(double x) { return V(static_cast<float>(x)); }

// B^T d: six to six.
struct InputLine {
  void operator()(const V* d, V* t) const {
    const V minus_a2 = number(-a2), minus_b2 = number(-b2), minus_sum = number(-a2 - b2), product = number(a2 * b2);
    const V even_a = xsimd::fma(minus_b2, d[2], d[4]), odd_a = number(a) * xsimd::fma(minus_b2, d[1], d[3]);
    const V even_b = xsimd::fma(minus_a2, d[2], d[4]), odd_b = number(b) * xsimd::fma(minus_a2, d[1], d[3]);
    t[0] = xsimd::fma(product, d[0], xsimd::fma(minus_sum, d[2], d[4]));
    t[1] = even_a + odd_a;
    t[2] = even_a - odd_a;
    t[3] = even_b + odd_b;
    t[4] = even_b - odd_b;
    t[5] = xsimd::fma(product, d[1], xsimd::fma(minus_sum, d[3], d[5]));
  }
};

// A^T m: six to four.
struct OutputLine {
  void operator()(const V* m, V* y) const {
    const V even_a = m[1] + m[2], odd_a = m[1] - m[2], even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = m[0] + even_a + even_b;
    y[1] = xsimd::fma(number(a), odd_a, number(b) * odd_b);
    y[2] = xsimd::fma(number(a2), even_a, number(b2) * even_b);
    y[3] = xsimd::fma(number(a * a2), odd_a, xsimd::fma(number(b * b2), odd_b, m[5]));
  }
};

// A dy: four to six.
struct GradientLine {
  void operator()(const V* y, V* z) const {
    const V even_a = xsimd::fma(number(a2), y[2], y[0]), odd_a = xsimd::fma(number(a * a2), y[3], number(a) * y[1]);
    const V even_b = xsimd::fma(number(b2), y[2], y[0]), odd_b = xsimd::fma(number(b * b2), y[3], number(b) * y[1]);
    z[0] = y[0];
    z[1] = even_a + odd_a;
    z[2] = even_a - odd_a;
    z[3] = even_b + odd_b;
    z[4] = even_b - odd_b;
    z[5] = y[3];
  }
};

inline constexpr double at_0 = 1 / (a2 * b2), at_a = 1 / (2 * a2 * (a2 - b2)), at_b = 1 / (2 * b2 * (b2 - a2));

// G g: three to six.
struct WeightLine {
  void operator()(const V* g, V* u) const {
    const V even_a = number(at_a) * xsimd::fma(number(a2), g[2], g[0]), odd_a = number(at_a * a) * g[1];
    const V even_b = number(at_b) * xsimd::fma(number(b2), g[2], g[0]), odd_b = number(at_b * b) * g[1];
    u[0] = number(at_0) * g[0];
    u[1] = even_a + odd_a;
    u[2] = even_a - odd_a;
    u[3] = even_b + odd_b;
    u[4] = even_b - odd_b;
    u[5] = g[2];
  }
};

// G^T r: six to three.
struct WeightGradientLine {
  void operator()(const V* r, V* g) const {
    const V even_a = number(at_a) * (r[1] + r[2]), even_b = number(at_b) * (r[3] + r[4]);
    g[0] = xsimd::fma(number(at_0), r[0], even_a + even_b);
    g[1] = xsimd::fma(number(at_a * a), r[1] - r[2], number(at_b * b) * (r[3] - r[4]));
    g[2] = xsimd::fma(number(a2), even_a, xsimd::fma(number(b2), even_b, r[5]));
  }
};

// A square of From x From vectors, load(i, j), transformed to To x To, save(i, j, v).
template <int From, int To, class Line, class Load, class Save>
inline __attribute__((always_inline)) void both_ways(const Line& line, const Load& load, const Save& save) {
  V half[From][To];
#pragma GCC unroll 6
  for (int i = 0; i < From; ++i) {
    V in[From];
#pragma GCC unroll 6
    for (int j = 0; j < From; ++j) in[j] = load(i, j);
    line(in, half[i]);
  }
#pragma GCC unroll 6
  for (int j = 0; j < To; ++j) {
    V in[From], out[To];
#pragma GCC unroll 6
    for (int i = 0; i < From; ++i) in[i] = half[i][j];
    line(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < To; ++i) save(i, j, out[i]);
  }
}

// Images with adjacent channels; strides in elements.
template <class T>
struct Images {
  T* data;
  std::int64_t height, width, channels, image, row, column;
  explicit Images(const View& v)
      : data(v.as<T>()),
        height(v.size(2)),
        width(v.size(3)),
        channels(v.size(1)),
        image(v.strides[0]),
        row(v.strides[2]),
        column(v.strides[3]) {}
};

// The tiles of 4 x 4 results of a batch, numbered by image, row, column.
struct Tiles {
  std::int64_t rows, columns, count;
  Tiles(std::int64_t batch, std::int64_t height, std::int64_t width_)
      : rows((height + 3) / 4), columns((width_ + 3) / 4), count(batch * rows * columns) {}
};

// A matrix [tiles, channels] for each of the 36 positions.
struct Positions {
  float* data;
  std::int64_t position, row;  // strides in elements
  Positions from(std::int64_t tile) const { return {data + tile * row, position, row}; }
};

// Pointers to the Size x Size pixels from 4 * (tile's row, column) - padding on; `outside` for pixels outside the
// image.
template <int Size, class T>
inline void find_pixels(const Images<T>& x, const Tiles& tiles, std::int64_t tile, std::int64_t padding_y,
                        std::int64_t padding_x, T* outside, T** pixel) {
  const std::int64_t in_image = tiles.rows * tiles.columns, n = tile / in_image, at = tile % in_image;
  const std::int64_t y0 = at / tiles.columns * 4 - padding_y, x0 = at % tiles.columns * 4 - padding_x;
  T* first = x.data + n * x.image + y0 * x.row + x0 * x.column;
  for (std::int64_t i = 0; i < Size; ++i) {
    const bool row_inside = static_cast<std::uint64_t>(y0 + i) < static_cast<std::uint64_t>(x.height);
    for (std::int64_t j = 0; j < Size; ++j) {
      const bool inside = row_inside && static_cast<std::uint64_t>(x0 + j) < static_cast<std::uint64_t>(x.width);
      pixel[i * Size + j] = inside ? first + i * x.row + j * x.column : outside;
    }
  }
}

// Transforms tiles [begin, end) of Size x Size pixels by Line into rows 0, 1, ... of `to`. `zeros` has as many elements
// as there are channels. Channels up to the next whole vector are written as zeros. While one tile is transformed the
// pixels of the next are prefetched: after a product none of them is in cache, and the hardware prefetcher does not
// predict them (measured: 110 to 190 ns without, 74 with it, for 16 channels of a tile).
template <int Size, class Line, class T>
void read_tiles(const Images<T>& x, const Tiles& tiles, std::int64_t begin, std::int64_t end, std::int64_t padding_y,
                std::int64_t padding_x, T* zeros, const Positions& to) {
  T *pixel[Size * Size], *next[Size * Size];
  find_pixels<Size>(x, tiles, begin, padding_y, padding_x, zeros, next);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    std::copy(next, next + Size * Size, pixel);
    find_pixels<Size>(x, tiles, std::min(tile + 1, tiles.count - 1), padding_y, padding_x, zeros, next);
    float* row = to.data + (tile - begin) * to.row;
    std::int64_t c = 0;
    for (; c + width <= x.channels; c += width) {
#pragma GCC unroll 6
      for (int i = 0; i < Size; ++i) {
#pragma GCC unroll 6
        for (int j = Size - 4; j < Size; ++j) __builtin_prefetch(next[i * Size + j] + c);
      }
      both_ways<Size, 6>(
          Line{}, [&](int i, int j) { return load_wide(static_cast<const T*>(pixel[i * Size + j] + c)); },
          [&](int i, int j, const V& v) { store(row + (i * 6 + j) * to.position + c, v); });
    }
    if (c < x.channels) {
      const std::int64_t n = x.channels - c;
      both_ways<Size, 6>(
          Line{}, [&](int i, int j) { return load_wide_part(static_cast<const T*>(pixel[i * Size + j] + c), n); },
          [&](int i, int j, const V& v) { store(row + (i * 6 + j) * to.position + c, v); });
    }
  }
}

// The 4 x 4 results of tiles [begin, end), plus bias, to channels [channel, channel + channels) of y. `bias` has whole
// vectors; `dump` receives `channels` elements for each pixel outside the image.
template <class T>
void write_tiles(const Images<T>& y, const Tiles& tiles, std::int64_t begin, std::int64_t end, std::int64_t channel,
                 std::int64_t channels, const float* bias, T* dump, const Positions& from) {
  T *pixel[16], *next[16];
  find_pixels<4>(y, tiles, begin, 0, 0, dump - channel, next);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    std::copy(next, next + 16, pixel);
    find_pixels<4>(y, tiles, std::min(tile + 1, tiles.count - 1), 0, 0, dump - channel, next);
    const float* row = from.data + (tile - begin) * from.row;
    for (std::int64_t c = 0; c < channels; c += width) {
      const V add = load(bias + c);
      const std::int64_t n = channels - c < width ? channels - c : width, at = channel + c;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) __builtin_prefetch(next[i] + at, 1);
      const auto read = [&](int i, int j) { return load(row + (i * 6 + j) * from.position + c); };
      if (n == width) {
        both_ways<6, 4>(OutputLine{}, read,
                        [&](int i, int j, const V& v) { store_rounded(pixel[i * 4 + j] + at, v + add); });
      } else {
        both_ways<6, 4>(OutputLine{}, read,
                        [&](int i, int j, const V& v) { store_rounded_part(pixel[i * 4 + j] + at, v + add, n); });
      }
    }
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::winograd_transform
