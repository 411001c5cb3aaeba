// A block moves a tile through shared memory: the rows of the tile are neighbours in the input, its columns neighbours
// in the result, so both are accessed along their neighbours (Ruetsch and Micikevicius, "Optimizing matrix transpose in
// CUDA", 2009). Tiles are 32 x 32, or longer where a tensor has fewer neighbours, such as the pixels of a 3 x 3 kernel.
#include "cuda/transpose.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/visit_word.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"
#include "cuda/walk.cuh"

namespace mantissa::cuda_backend {
namespace {

constexpr unsigned edge = 32, capacity = edge * (edge + 1);  // elements of a tile
constexpr unsigned tile_threads = 128;                       // each moves eight elements, which repays finding the tile

// `walk` goes over tiles: dimension 0 along the columns, 1 along the rows. Operand 0 is the result.
struct Tiles {
  Walk<1> walk;
  std::int64_t columns, rows;        // of the tensor
  unsigned tile_columns, tile_rows;  // of a tile
  std::int64_t row_stride;           // from row to row of the result
  std::int64_t column_stride;        // from column to column of the input
};

// How an element is moved: as a plain word of its size, or converted by way of C.
template <class Word> struct AsWord {
  using Value = Word;
  using Operand = Walk<1>::Operand;
  static __device__ Word load(const Operand& o, std::int64_t i) { return static_cast<const Word*>(o.data)[i]; }
  static __device__ void store(const Operand& o, std::int64_t i, Word v) { static_cast<Word*>(o.data)[i] = v; }
};
template <class C> struct Converted {
  using Value = C;
  using Operand = Walk<1>::Operand;
  static __device__ C load(const Operand& o, std::int64_t i) { return load_element<C>(o.data, o.dtype, i); }
  static __device__ void store(const Operand& o, std::int64_t i, C v) { store_element(o.data, o.dtype, i, v); }
};

// Calls f(o, i) for the elements of a tile, of which `inner` are neighbours; a thread's are far apart.
template <class F> __device__ inline void for_each_in_tile(unsigned outer, unsigned inner, F&& f) {
  for (unsigned e = threadIdx.x; e < outer * inner; e += tile_threads) {
    const unsigned o = e / inner;
    f(o, e - o * inner);
  }
}

template <class Move> __global__ void __launch_bounds__(tile_threads) transpose_kernel(Tiles tiles) {
  wait_for_previous_kernel();
  __shared__ typename Move::Value tile[capacity];
  const auto& [to, from] = tiles.walk.operand;
  std::int64_t at[2];
  tiles.walk.offsets(blockIdx.x, at);
  const Divider &across = tiles.walk.sizes[0], &down = tiles.walk.sizes[1];
  const unsigned above = across.divide(blockIdx.x), before = down.divide(above);
  const std::int64_t column = std::int64_t{blockIdx.x - above * across.divisor} * tiles.tile_columns,
                     row = std::int64_t{above - before * down.divisor} * tiles.tile_rows,
                     columns_left = tiles.columns - column, rows_left = tiles.rows - row;
  const unsigned columns = columns_left < tiles.tile_columns ? static_cast<unsigned>(columns_left) : tiles.tile_columns,
                 rows = rows_left < tiles.tile_rows ? static_cast<unsigned>(rows_left) : tiles.tile_rows;
  if (columns == edge && rows == edge) {  // almost always: without divisions
    constexpr unsigned warps = tile_threads / edge;
    const unsigned lane = threadIdx.x % edge, warp = threadIdx.x / edge;
    std::int64_t i = at[1] + warp * tiles.column_stride + lane;
#pragma unroll
    for (unsigned c = 0; c < edge; c += warps, i += warps * tiles.column_stride)
      tile[(warp + c) * (edge + 1) + lane] = Move::load(from, i);
    __syncthreads();
    i = at[0] + warp * tiles.row_stride + lane;
#pragma unroll
    for (unsigned r = 0; r < edge; r += warps, i += warps * tiles.row_stride)
      Move::store(to, i, tile[lane * (edge + 1) + warp + r]);
    return;
  }
  const unsigned pitch = rows | 1;  // odd, so that a row of the tile is in different banks
  for_each_in_tile(columns, rows, [&](unsigned c, unsigned r) {
    tile[c * pitch + r] = Move::load(from, at[1] + c * tiles.column_stride + r);
  });
  __syncthreads();
  for_each_in_tile(rows, columns, [&](unsigned r, unsigned c) {
    Move::store(to, at[0] + r * tiles.row_stride + c, tile[c * pitch + r]);
  });
}

// The dimension along which the input has neighbours; -1 if none.
int dimension_of_rows(const ElementwiseLoop& loop) {
  for (int d = 0; d < loop.sizes.rank(); ++d) {
    if (loop.strides[1][d] == 1) return d;
  }
  return -1;
}

// How long a tile can be that is `width` wide; whole warps.
std::int64_t longest(std::int64_t width) {
  return std::max<std::int64_t>(edge, (capacity - edge) / (width | 1) / edge * edge);
}
std::int64_t length_of_tile(std::int64_t size, std::int64_t width) {
  return std::min<std::int64_t>(size, width < edge ? longest(width) : edge);
}

Tiles plan_tiles(const ElementwiseLoop& loop) {
  const int last = loop.sizes.rank() - 1, other = dimension_of_rows(loop);
  Tiles t{};
  t.columns = loop.sizes[last], t.rows = loop.sizes[other];
  t.tile_columns = static_cast<unsigned>(length_of_tile(t.columns, t.rows));
  t.tile_rows = static_cast<unsigned>(length_of_tile(t.rows, t.columns));
  t.row_stride = loop.strides[0][other], t.column_stride = loop.strides[1][last];
  ElementwiseLoop over = loop;
  std::swap(over.sizes[other], over.sizes[last - 1]);
  for (int k = 0; k < 2; ++k) std::swap(over.strides[k][other], over.strides[k][last - 1]);
  const auto count_tiles = [&](int d, std::int64_t length) {
    over.sizes[d] = (over.sizes[d] + length - 1) / length;
    for (int k = 0; k < 2; ++k) over.strides[k][d] *= length;
  };
  count_tiles(last, t.tile_columns);
  count_tiles(last - 1, t.tile_rows);
  t.walk = walk_of<1>(over);
  t.walk.sizes[1] = Divider(over.sizes[last - 1]);  // also if it is the outermost
  return t;
}

template <class Move> void launch_tiles(const Tiles& tiles) {
  launch("rearrange", transpose_kernel<Move>, Grid{dim3(tiles.walk.count), dim3(tile_threads)}, tiles);
}

}  // namespace

bool can_transpose(const ElementwiseLoop& loop) {
  const int last = loop.sizes.rank() - 1;
  if (last < 1 || loop.operand[1].constant || loop.strides[0][last] != 1) return false;
  const int other = dimension_of_rows(loop);
  if (other < 0 || loop.strides[1][last] <= 1) return false;
  const std::int64_t columns = loop.sizes[last], rows = loop.sizes[other];
  return length_of_tile(columns, rows) * length_of_tile(rows, columns) >= tile_threads;
}

void transpose(const ElementwiseLoop& part) {
  const Tiles tiles = plan_tiles(part);
  const Dtype from = part.operand[1].dtype, to = part.operand[0].dtype;
  if (from == to) return visit_word(to, [&]<class Word>() { launch_tiles<AsWord<Word>>(tiles); });
  const Dtype a = compute_dtype(from), b = compute_dtype(to);
  const bool small = from == u8 || from == boolean;  // exact in f32
  if (a == i64 && b == i64) launch_tiles<Converted<std::int64_t>>(tiles);
  else if (b == f32 && (a == f32 || small)) launch_tiles<Converted<float>>(tiles);
  else launch_tiles<Converted<double>>(tiles);
}

}  // namespace mantissa::cuda_backend
