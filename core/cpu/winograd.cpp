// Winograd convolutions: transform image tiles, multiply matrices for each of 36 positions, transform back. The loop
// order is chosen so that everything between the transforms stays in a core's own cache.
//   - By tiles: all weights are transformed first, then each piece of work takes a block of tiles through all three
//     steps. For few channels, where the transformed weights are small.
//   - By panels: all tiles (of a large group) are transformed first, then each piece takes a panel of output channels:
//     it transforms their weights as it goes, multiplies, and transforms back. For many channels and small images,
//     where the transformed weights would be four times the weights and not fit any cache.
//   - The weight gradient sums over tiles. By tiles (few channels): each piece transforms tiles of both images and adds
//     their products to its own sums, which are added up at the end. By blocks (many channels): all tiles are
//     transformed, then each piece takes a block of the weights with all its positions.
// Work is partitioned by shape and sums are added in the order of tiles: the bits do not depend on threads.
#include "core/winograd.h"

#include <algorithm>

#include "core/cpu/gemm_tile.h"
#include "core/cpu/winograd_transform.h"
#include "core/cpu/winograd_weights.h"
#include "core/error.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using namespace winograd_transform;
using gemm_tile::max_columns, gemm_tile::max_rows;

constexpr std::int64_t kib = 1024;
constexpr std::int64_t own_cache = 1024 * kib;         // per core
constexpr std::int64_t weights_by_tiles = 4096 * kib;  // transformed weights, reread by every block of tiles
constexpr std::int64_t group_bytes = 4096 * kib;       // transformed tiles per piece of the weight gradient
// Number of pieces of it, and tiles worth a piece: each costs a sum as large as the transformed weights.
constexpr std::int64_t most_sums = 16, least_tiles = 128, sum_bytes = 32 * 1024 * kib;
constexpr std::int64_t most_pieces = 32;

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }
std::int64_t whole_vectors(std::int64_t n) { return divide_up(n, width) * width; }
// Rows 4 KiB apart would map to the same cache sets.
std::int64_t row_of(std::int64_t channels) {
  return whole_vectors(channels) + (whole_vectors(channels) % 256 == 0 ? 16 : 0);
}
std::int64_t position_of(std::int64_t tiles, std::int64_t row) { return tiles * row + 16; }

// Uninitialised floats (or fewer bytes of another type) from the caching allocator.
class Scratch {
 public:
  explicit Scratch(std::int64_t floats) : tensor_(Tensor::allocate({std::max<std::int64_t>(floats, 1)}, f32)) {}
  float* data() const { return tensor_.data<float>(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(tensor_.raw_data());
  }

 private:
  Tensor tensor_;
};

// [tiles, channels] for each position.
struct Block : Scratch {
  Positions at;
  Block(std::int64_t tiles, std::int64_t channels)
      : Scratch(positions * position_of(tiles, row_of(channels))),
        at{data(), position_of(tiles, row_of(channels)), row_of(channels)} {}
};

// Prefetches `columns` of the next position's matrix, some rows before each tile of the product with the current one:
// another core may have written them, and in a virtual machine the two virtual cores may share no cache (measured: 37
// instead of 75 GB/s between them; small images became 1.1 times as fast with this).
struct Ahead {
  const float* data;
  std::int64_t rows, row, columns;
  void operator()(std::int64_t i, std::int64_t n) const {
    for (std::int64_t r = rows * i / n; r < rows * (i + 1) / n; ++r) {
      for (std::int64_t c = 0; c < columns; c += 16) __builtin_prefetch(data + r * row + c, 0, 2);
    }
  }
};
Ahead ahead(const Positions& x, std::int64_t position, std::int64_t rows, std::int64_t column, std::int64_t columns) {
  return {x.data + (position + 1) * x.position + column, position + 1 < positions ? rows : 0, x.row, columns};
}
// Pixels outside an image read `channels` zeros, and are written to a dummy location.
template <class T>
struct Outside : Scratch {
  explicit Outside(std::int64_t channels) : Scratch(whole_vectors(channels)) {
    std::fill_n(data(), whole_vectors(channels), 0.0f);
  }
  T* get() const { return as<T>(); }
};

// y = x correlated with w, plus bias. Images x are zero-padded.
template <class T>
struct Correlation {
  Images<T> x, y;
  Weights w;
  std::int64_t padding[2];
  Tiles tiles;
  Scratch bias;  // padded to whole panels

  Correlation(const View& to, const View& from, const Weights& weights, const View& add, const std::int64_t (&pad)[2],
              std::int64_t batch)
      : x(from),
        y(to),
        w(weights),
        padding{pad[0], pad[1]},
        tiles(batch, y.height, y.width),
        bias(divide_up(w.lanes, max_columns) * max_columns) {
    std::fill_n(bias.data(), divide_up(w.lanes, max_columns) * max_columns, 0.0f);
    if (add) load_run(bias.data(), add.data, add.dtype, 0, add.strides[0], w.lanes);
  }
  std::int64_t panels() const { return divide_up(w.lanes, max_columns); }
  void run() const {
    if (positions * w.depth * panels() * max_columns * 4 <= weights_by_tiles)
      by_tiles();
    else
      by_panels();
  }

  void by_tiles() const {
    const std::int64_t panel = w.depth * max_columns, position = panels() * panel + 16;
    const Scratch weights(positions * position);
    const std::int64_t parts = divide_up(w.depth, depth_step);
    parallel_for(panels() * parts, divide_up(panels() * parts, most_pieces),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t p = i / parts, d = i % parts * depth_step;
                     transform_panel(w, d, std::min(w.depth, d + depth_step), p * max_columns,
                                     weights.data() + p * panel + d * max_columns, position);
                   }
                 });
    // Half of the cache for the tiles, half for the weights streaming through it.
    const std::int64_t tile_bytes = positions * (row_of(w.depth) + row_of(w.lanes)) * 4;
    const std::int64_t fitting = std::clamp<std::int64_t>(own_cache / 2 / tile_bytes / max_rows, 1, 4) * max_rows;
    const std::int64_t step = std::min(fitting, divide_up(tiles.count, 8)), blocks = divide_up(tiles.count, step);
    parallel_for(blocks, divide_up(blocks, most_pieces), [&](std::int64_t begin, std::int64_t end) {
      const Block in(step, w.depth), out(step, w.lanes);
      const Outside<T> zeros(w.depth), dump(w.lanes);
      for (std::int64_t t = begin * step; t < std::min(end * step, tiles.count); t += step) {
        const std::int64_t n = std::min(step, tiles.count - t);
        read_tiles<6, InputLine>(x, tiles, t, t + n, padding[0], padding[1], zeros.get(), in.at);
        for (std::int64_t p = 0; p < positions; ++p) {
          gemm_tile::multiply_block(n, whole_vectors(w.lanes),
                                    {in.at.data + p * in.at.position, in.at.row, 1, weights.data() + p * position,
                                     max_columns, out.at.data + p * out.at.position, out.at.row, w.depth},
                                    panel, false);
        }
        write_tiles(y, tiles, t, t + n, 0, w.lanes, bias.data(), dump.get(), out.at);
      }
    });
  }

  void by_panels() const {
    // A panel's products take a third of the cache, its weights another.
    const std::int64_t most =
        std::max<std::int64_t>(own_cache / 3 / (positions * max_columns * 4) / max_rows, 1) * max_rows;
    const std::int64_t step = divide_up(tiles.count, divide_up(tiles.count, most)),
                       groups = divide_up(tiles.count, step);
    const std::int64_t depth =
        std::max<std::int64_t>(own_cache / 3 / (positions * max_columns * 4) / depth_step, 1) * depth_step;
    const Block in(step, w.depth);
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t first = g * step, n = std::min(step, tiles.count - first);
      parallel_for(n, divide_up(n, most_pieces), [&](std::int64_t begin, std::int64_t end) {
        const Outside<T> zeros(w.depth);
        read_tiles<6, InputLine>(x, tiles, first + begin, first + end, padding[0], padding[1], zeros.get(),
                                 in.at.from(begin));
      });
      parallel_for(panels(), 1, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t position = depth * max_columns + 16;
        const Block out(step, max_columns);
        const Scratch weights(positions * position);
        const Outside<T> dump(max_columns);
        for (std::int64_t panel = begin; panel < end; ++panel) {
          const std::int64_t lane = panel * max_columns, lanes = std::min(max_columns, w.lanes - lane);
          for (std::int64_t d = 0; d < w.depth; d += depth) {
            const std::int64_t here = std::min(depth, w.depth - d);
            transform_panel(w, d, d + here, lane, weights.data(), position);
            for (std::int64_t p = 0; p < positions; ++p) {
              gemm_tile::multiply_block(
                  n, whole_vectors(lanes),
                  {in.at.data + p * in.at.position + d, in.at.row, 1, weights.data() + p * position, max_columns,
                   out.at.data + p * out.at.position, out.at.row, here},
                  0, d > 0, ahead(in.at, p, n, d, here));
            }
          }
          write_tiles(y, tiles, first, first + n, lane, lanes, bias.data() + lane, dump.get(), out.at);
        }
      });
    }
  }
};

// dw = sum over tiles of x and g.
template <class T>
struct WeightGradient {
  Images<T> x, g;
  Weights w;
  std::int64_t padding[2];
  Tiles tiles;

  WeightGradient(const View& weight, const View& in, const View& gradient, const std::int64_t (&pad)[2],
                 std::int64_t batch)
      : x(in), g(gradient), w(weight, false), padding{pad[0], pad[1]}, tiles(batch, g.height, g.width) {}

  void run() const {
    if (positions * w.depth * row_of(w.lanes) * 4 <= weights_by_tiles)
      by_tiles();
    else
      by_blocks();
  }

  void read(std::int64_t first, std::int64_t n, const T* zeros, const Positions& in, const Positions& out) const {
    T* none = const_cast<T*>(zeros);
    read_tiles<6, InputLine>(x, tiles, first, first + n, padding[0], padding[1], none, in);
    read_tiles<4, GradientLine>(g, tiles, first, first + n, 0, 0, none, out);
  }

  // Each piece sums over its own tiles, so that no core reads tiles transformed by another.
  void by_tiles() const {
    const std::int64_t row = row_of(w.lanes), position = position_of(w.depth, row), all = positions * position;
    const std::int64_t most_here = std::min(most_sums, sum_bytes / (4 * all));
    std::int64_t pieces = 1;
    while (2 * pieces <= most_here && tiles.count / (2 * pieces) >= least_tiles) pieces *= 2;
    const std::int64_t piece = divide_up(tiles.count, pieces);
    const std::int64_t tile_bytes = positions * (row_of(w.depth) + row_of(w.lanes)) * 4;
    const std::int64_t most = std::max<std::int64_t>(group_bytes / tile_bytes, 32),
                       step = divide_up(piece, divide_up(piece, most));
    const Scratch sums(pieces * all);
    parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      const Block in(step, w.depth), out(step, w.lanes);
      const Outside<T> zeros(std::max(w.depth, w.lanes));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t last = std::min((i + 1) * piece, tiles.count);
        for (std::int64_t first = i * piece; first < last; first += step) {
          const std::int64_t n = std::min(step, last - first);
          read(first, n, zeros.get(), in.at, out.at);
          for (std::int64_t p = 0; p < positions; ++p) {
            gemm_tile::multiply_block(
                w.depth, whole_vectors(w.lanes),
                {in.at.data + p * in.at.position, 1, in.at.row, out.at.data + p * out.at.position, out.at.row,
                 sums.data() + i * all + p * position, row, n},
                max_columns, first > i * piece);
          }
        }
      }
    });
    parallel_for(w.depth, divide_up(divide_up(w.depth, most_pieces), 4) * 4,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t p = 0; p < positions; ++p) {
                     float* sum = sums.data() + p * position;
                     for (std::int64_t i = 1; i < pieces; ++i) {
                       for (std::int64_t j = begin * row; j < end * row; j += width)
                         store(sum + j, load(sum + j) + load(sum + i * all + j));
                     }
                   }
                   untransform(w, begin, end, 0, w.lanes, sums.data() + begin * row, position, row);
                 });
  }

  // A panel of output channels by some input channels, at all positions, whose sums stay in cache.
  void by_blocks() const {
    const std::int64_t n = tiles.count;
    const Block in(n, w.depth), out(n, w.lanes);
    parallel_for(n, divide_up(n, most_pieces), [&](std::int64_t begin, std::int64_t end) {
      const Outside<T> zeros(std::max(w.depth, w.lanes));
      read(begin, end - begin, zeros.get(), in.at.from(begin), out.at.from(begin));
    });
    const std::int64_t depth = 4 * max_rows, parts = divide_up(w.depth, depth),
                       panels = divide_up(w.lanes, max_columns);
    parallel_for(panels * parts, divide_up(panels * parts, most_pieces), [&](std::int64_t begin, std::int64_t end) {
      const Block sums(depth, max_columns);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t lane = i / parts * max_columns, lanes = std::min(max_columns, w.lanes - lane);
        const std::int64_t d = i % parts * depth, here = std::min(depth, w.depth - d);
        for (std::int64_t p = 0; p < positions; ++p) {
          gemm_tile::multiply_block(
              here, whole_vectors(lanes),
              {in.at.data + p * in.at.position + d, 1, in.at.row, out.at.data + p * out.at.position + lane,
               out.at.row, sums.at.data + p * sums.at.position, sums.at.row, n},
              0, false);
        }
        untransform(w, d, d + here, lane, lanes, sums.at.data, sums.at.position, sums.at.row);
      }
    });
  }
};

template <class T>
void run(ConvPass pass, const ConvShape& s, const View& y, const View& a, const View& b, const View& bias) {
  const std::int64_t padding[2] = {s.padding[0], s.padding[1]}, other[2] = {2 - s.padding[0], 2 - s.padding[1]};
  switch (pass) {
    case ConvPass::forward:
      return Correlation<T>(y, a, Weights(b, false), bias, padding, s.batch).run();
    case ConvPass::input_gradient:
      return Correlation<T>(y, a, Weights(b, true), View{}, other, s.batch).run();
    default:
      return WeightGradient<T>(y, a, b, padding, s.batch).run();
  }
}

}  // namespace

void winograd(ConvPass pass, const ConvShape& s, const View& y, const View& a, const View& b, const View& bias) {
  const bool to_weight = pass == ConvPass::weight_gradient;
  const View &image = a, &other = to_weight ? b : y;
  check(winograd_can(pass, s),
        "winograd: needs kernels of 3 x 3, stride 1, dilation 1, one group and padding up to 2");
  check(image.dtype == other.dtype, "winograd: images are stored in ", image.dtype, " and ", other.dtype);
  for (const View* v : {&image, &other}) {
    check(v->size(1) == 1 || v->strides[1] == 1, "winograd: channels of an image must be adjacent, their stride is ",
          v->strides[1]);
  }
  visit_floating(image.dtype, [&]<class T> {
    if constexpr (sizeof(T) <= 4)
      run<T>(pass, s, y, a, b, bias);
    else
      check(false, "winograd: computes in f32, images are stored in f64");
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
