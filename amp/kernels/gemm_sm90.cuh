// A matrix product for Hopper: wgmma fed by TMA through a ring of shared-memory stages, warp-specialized. One warp of
// the first warpgroup only starts copies; two warpgroups compute 64 rows of the tile each.
// Blocks are persistent, so the copies of the next tile run while the last one is stored. f16 and bf16 results pass
// through shared memory in boxes that TMA stores while the next tile is computed; epilogues that read or write more per
// element use ordinary stores. Two blocks can form a cluster that computes vertically adjacent tiles: each copies half
// of the shared part of b into both, so that a block reads a third less from L2. For sm_90a, and for the CPU shim with
// counterparts of its instructions; on a GPU each use is first compared with another implementation (cuda/tuner.h). A
// warpgroup's product is executed by its four warps, and waiting for it only covers the own warp: a stage is free when
// every warp of both warpgroups has signalled that it has finished reading. Compiled for other GPUs the kernel is
// empty.
#pragma once

#include <cuda.h>

#include <algorithm>

#include "amp/kernels/gemm_finish.cuh"
#include "amp/kernels/hopper.cuh"
#include "amp/kernels/hopper_layout.h"

namespace mantissa::tensor_core::sm90 {

// Creates the tensor map of a stored matrix [items][rows][columns], with boxes of 64 columns and `box_rows` rows; false
// if the driver refuses. amp/kernels/gemm_sm90.cu
bool make_map(CUtensorMap* map, Dtype dtype, const void* p, std::int64_t columns, std::int64_t rows,
              std::int64_t leading, std::int64_t items, std::int64_t item_stride, int box_rows);

inline constexpr int tile_m = 128, tile_k = 64;  // 64 elements: one swizzled line of 128 bytes
static_assert(tile_k == hopper::line);
inline constexpr int ring = 4;
inline constexpr int threads = 384;              // a producer and two consumer warpgroups
inline constexpr int consumer_warps = 8;
inline constexpr int rows_walked = 16;           // tile rows covered before the next column, see place_of
inline constexpr int slice = 32, slice_row = slice + 8;  // columns stored at once; rows padded against bank conflicts
inline constexpr int box_columns = 64;    // of results stored by TMA: one swizzled line of 128 bytes

template <int tile_n> struct Shared {
  alignas(1024) std::uint16_t a[ring][tile_m * tile_k];
  alignas(1024) std::uint16_t b[ring][tile_n * tile_k];
  union Results {  // of a warpgroup, to be stored
    std::uint16_t boxes[2][64 * box_columns];  // one is stored while the other is filled
    float slice[64 * slice_row];
  };
  alignas(1024) Results results[2];
  std::uint64_t full[ring], empty[ring];
};

// Position of a tile of rows x columns: several tile rows are covered before the next column, so that blocks that run
// together share operands in L2.
struct Place { int item, row, column; };
__device__ inline Place place_of(const Gemm& g, std::int64_t index, int rows, int columns) {
  const std::int64_t down = (g.m + rows - 1) / rows, across = (g.n + columns - 1) / columns;
  const std::int64_t item = index / (down * across), inside = index % (down * across);
  const std::int64_t most = rows_walked * tile_m / rows, first = inside / (most * across) * most;
  const std::int64_t height = down - first < most ? down - first : most, rest = inside - first * across;
  return {static_cast<int>(item), static_cast<int>(first + rest % height) * rows,
          static_cast<int>(rest / height) * columns};
}

// The joint work of a cluster: vertically adjacent tiles. `index` counts these.
template <int tile_n, int blocks> struct Tiles {
  std::int64_t index, step, count;
  __device__ explicit Tiles(std::int64_t n) : index(blockIdx.x / blocks), step(gridDim.x / blocks), count(n) {}
  __device__ bool more() const { return index < count; }
  __device__ void next() { index += step; }
  __device__ Place own(const Gemm& g) const {
    Place p = place_of(g, index, tile_m * blocks, tile_n);
    if constexpr (blocks > 1) p.row += static_cast<int>(hopper::block_in_cluster()) * tile_m;
    return p;
  }
};

// Copies part of one operand of a stage, for this block or (to_all) all of the cluster. Boxes:
// amp/kernels/hopper_layout.h.
template <int outer, bool mn, bool to_all = false>
__device__ inline void copy_operand(std::uint16_t* to, const CUtensorMap* map, std::uint64_t* full, int at, int k,
                                    int item) {
#pragma unroll
  for (int i = 0; i < hopper::boxes_of<mn>(outer); ++i) {
    std::uint16_t* const box = to + i * hopper::box_elements;
    const int across = at + hopper::line * i, x = mn ? across : k, y = mn ? k : across;
    if constexpr (to_all) hopper::copy_box_to_blocks(3, box, map, full, x, y, item);
    else hopper::copy_box(box, map, full, x, y, item);
  }
}

// The descriptor of the 16 columns of k from `k`, rows from `outer` on.
template <bool mn> __device__ inline std::uint64_t operand(const std::uint16_t* tile, int outer, int k) {
  return hopper::descriptor<mn>(hopper::shared_address(tile + hopper::operand_offset<mn>(outer, k)));
}

template <int tile_n, bool a_mn, bool b_mn, int blocks>
__device__ __forceinline__ void produce(const Gemm& g, std::int64_t tiles, int steps, Shared<tile_n>& shared,
                                        const CUtensorMap* map_a, const CUtensorMap* map_b) {
  constexpr int part = tile_n / blocks;  // columns of b that this block copies
  const int from = blocks > 1 ? part * static_cast<int>(hopper::block_in_cluster()) : 0;
  int stage = 0, phase = 0;
  for (Tiles<tile_n, blocks> t(tiles); t.more(); t.next()) {
    const Place place = t.own(g);
    for (int step = 0; step < steps; ++step) {
      hopper::barrier_wait(&shared.empty[stage], phase ^ 1);  // the first round finds every stage empty
      hopper::barrier_expect(&shared.full[stage], (tile_m + tile_n) * tile_k * 2);
      copy_operand<tile_m, a_mn>(shared.a[stage], map_a, &shared.full[stage], place.row, step * tile_k, place.item);
      copy_operand<part, b_mn, (blocks > 1)>(shared.b[stage] + hopper::operand_offset<b_mn>(from, 0), map_b,
                                             &shared.full[stage], place.column + from, step * tile_k, place.item);
      if (++stage == ring) stage = 0, phase ^= 1;
    }
  }
  // The other block still signals barriers of this one, which must exist until then.
  for (int i = 0; blocks > 1 && i < ring; ++i) {
    hopper::barrier_wait(&shared.empty[stage], phase ^ 1);
    if (++stage == ring) stage = 0, phase ^= 1;
  }
}

// A warp has read a stage: signals all blocks that copy into it.
template <int blocks> __device__ inline void release(std::uint64_t* empty, int lane) {
  if constexpr (blocks == 1) {
    if (lane == 0) hopper::barrier_arrive(empty);
  } else {
    if (lane < blocks) hopper::barrier_arrive_in(empty, lane);
  }
}

// Stores a warpgroup's 64 rows, 32 columns at a time, with the general epilogue.
template <class T, int tile_n>
__device__ __forceinline__ void store_slices(const Gemm& g, const Place& place, int consumer,
                                             const float (&d)[tile_n / 2], float* result) {
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
#pragma unroll 1
  for (int from = 0; from < tile_n; from += slice) {
#pragma unroll
    for (int s = 0; s < tile_n; s += slice) {
      if (s != from) continue;
#pragma unroll
      for (int j = 0; j < slice / 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float* v = d + (s / 8 + j) * 4 + 2 * half;
          float* to = result + (16 * warp + 8 * half + lane / 4) * slice_row + 8 * j + lane % 4 * 2;
          *reinterpret_cast<float2*>(to) = make_float2(v[0], v[1]);
        }
      }
    }
    hopper::warpgroup_sync(1 + consumer);
#pragma unroll 1
    for (int i = thread * 4; i < 64 * slice; i += 128 * 4) {
      const std::int64_t row = place.row + 64 * consumer + i / slice, column = place.column + from + i % slice;
      if (row >= g.m || column >= g.n) continue;
      const float4 v = *reinterpret_cast<const float4*>(result + i / slice * slice_row + i % slice);
      const float sums[4] = {v.x, v.y, v.z, v.w};
      finish_four<T>(g, place.item, row, column, sums);
    }
    hopper::warpgroup_sync(1 + consumer);
  }
}

// Whether results can be stored in boxes: f16 or bf16, with at most a bias and relu. (The code is unrolled for each of
// a thread's 128 results, so it must be short.)
inline bool fits_boxes(const Gemm& g) {
  return is_half(g.out) && !g.accumulate && !g.saved && !g.before_activation &&
         (g.activation == Activation::none || g.activation == Activation::relu) && g.ldc % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(g.c) % 16 == 0;
}

// Stores a warpgroup's 64 rows, 64 columns at a time. 16-byte chunks are placed where TMA expects them: swizzled within
// 8 rows.
template <class T, int tile_n>
__device__ __forceinline__ void store_boxes(const Gemm& g, const Place& place, int consumer,
                                            const float (&d)[tile_n / 2], std::uint16_t (&boxes)[2][64 * box_columns],
                                            const CUtensorMap* map_c) {
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  const int row = 16 * warp + lane % 16;  // which row address this lane supplies
  const bool relu = g.activation == Activation::relu;
  const T* const bias = static_cast<const T*>(g.bias);
#pragma unroll
  for (int box = 0; box < tile_n / box_columns; ++box) {
    std::uint16_t* const to = boxes[box % 2];
    float add[box_columns / 8][2];  // -0 leaves every sum as it is
#pragma unroll
    for (int j = 0; j < box_columns / 8; ++j) {
      const std::int64_t column = place.column + box * box_columns + 8 * j + lane % 4 * 2;
      add[j][0] = bias && column < g.n ? static_cast<float>(bias[column]) : -0.0f;
      add[j][1] = bias && column + 1 < g.n ? static_cast<float>(bias[column + 1]) : -0.0f;
    }
    if (thread == 0) hopper::copies_out_wait<1>();  // the store before last has released this buffer
    hopper::warpgroup_sync(1 + consumer);
#pragma unroll
    for (int j = 0; j < box_columns / 8; j += 2) {
      std::uint32_t halves[4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // 8 columns: this lane holds two of them in two rows
        const float* sums = d + (box * box_columns / 8 + j + i) * 4;
        const float b0 = add[j + i][0], b1 = add[j + i][1];
        float v[4] = {sums[0] + b0, sums[1] + b1, sums[2] + b0, sums[3] + b1};
        if (relu) {
#pragma unroll
          for (float& x : v) x = pointwise::Relu().f(static_cast<float>(T(x)));
        }
        halves[2 * i] = hopper::pack<T>(v[0], v[1]);
        halves[2 * i + 1] = hopper::pack<T>(v[2], v[3]);
      }
      hopper::store_matrices(to + row * box_columns + ((j + lane / 16) ^ row % 8) * 8, halves);
    }
    hopper::show_stores();
    hopper::warpgroup_sync(1 + consumer);
    if (thread == 0) {
      hopper::copy_box_out(map_c, to, place.column + box * box_columns, place.row + 64 * consumer, place.item);
      hopper::copies_out_commit();
    }
  }
}

template <class T, int tile_n, bool a_mn, bool b_mn, int blocks>
__device__ __forceinline__ void consume(const Gemm& g, std::int64_t tiles, int steps, Shared<tile_n>& shared,
                                        int consumer, bool boxed, const CUtensorMap* map_c) {
  const int lane = threadIdx.x % 32;
  float d[tile_n / 2] = {};  // initialized, since ptxas 12.4 otherwise serializes the products (warning C7515)
  int stage = 0, phase = 0;
  for (Tiles<tile_n, blocks> t(tiles); t.more(); t.next()) {
    int before = 0;
    for (int step = 0; step < steps; ++step) {
      hopper::barrier_wait(&shared.full[stage], phase);
      hopper::wgmma_begin();
#pragma unroll
      for (int k = 0; k < tile_k; k += 16) {
        hopper::Wgmma<T, tile_n, a_mn, b_mn>::run(d, operand<a_mn>(shared.a[stage], 64 * consumer, k),
                                                  operand<b_mn>(shared.b[stage], 0, k), step > 0 || k > 0);
      }
      hopper::wgmma_commit();
      hopper::wgmma_wait<1>();  // this warp's products of the previous step are done
      if (step > 0) release<blocks>(&shared.empty[before], lane);
      before = stage;
      if (++stage == ring) stage = 0, phase ^= 1;
    }
    const Place place = t.own(g);  // divisions: while the last products are under way
    hopper::wgmma_wait<0>();
    release<blocks>(&shared.empty[before], lane);

    auto& results = shared.results[consumer];
    if (boxed) store_boxes<T, tile_n>(g, place, consumer, d, results.boxes, map_c);
    else store_slices<T, tile_n>(g, place, consumer, d, results.slice);
  }
  if (boxed && threadIdx.x % 128 == 0) hopper::copies_out_wait<0>();  // shared memory ends with the block
}

template <class T, int tile_n, bool a_mn, bool b_mn, int blocks>
__global__ void __launch_bounds__(threads, 1)
    gemm_hopper(Gemm g, std::int64_t tiles, bool boxed, __grid_constant__ const CUtensorMap map_a,
                __grid_constant__ const CUtensorMap map_b, __grid_constant__ const CUtensorMap map_c) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  MANTISSA_SHARED(char, dynamic);
  // An offset instead of a rounded pointer, which the compiler would not recognize as shared memory.
  auto& shared = *reinterpret_cast<Shared<tile_n>*>(dynamic + (-hopper::shared_address(dynamic) & 1023));
  const int warpgroup = threadIdx.x / 128, steps = static_cast<int>((g.k + tile_k - 1) / tile_k);
  if (threadIdx.x == 0) {
    for (int s = 0; s < ring; ++s) {
      hopper::barrier_init(&shared.full[s], 1);
      hopper::barrier_init(&shared.empty[s], consumer_warps * blocks);
    }
    hopper::barrier_init_done();
  }
  if constexpr (blocks > 1) hopper::cluster_sync();
  else __syncthreads();

  // A single if/else without early return: only then can the compiler move registers from the producer to the
  // consumers.
  if (warpgroup == 0) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) produce<tile_n, a_mn, b_mn, blocks>(g, tiles, steps, shared, &map_a, &map_b);
  } else {
    hopper::take_registers<232>();
    consume<T, tile_n, a_mn, b_mn, blocks>(g, tiles, steps, shared, warpgroup - 1, boxed, &map_c);
  }
#endif
}

template <class T, int tile_n, bool a_mn, bool b_mn, int blocks> bool launch(const Gemm& g) {
  CUtensorMap map_a, map_b, map_c{};
  const std::int64_t a_step = g.batch.rank ? g.batch.a[0] : 0, b_step = g.batch.rank ? g.batch.b[0] : 0;
  const bool mapped =
      make_map(&map_a, g.in, g.a, a_mn ? g.m : g.k, a_mn ? g.k : g.m, g.lda, g.items, a_step, a_mn ? tile_k : tile_m) &&
      make_map(&map_b, g.in, g.b, b_mn ? g.n : g.k, b_mn ? g.k : g.n, g.ldb, g.items, b_step,
               b_mn ? tile_k : tile_n / blocks);
  if (!mapped) return false;
  const bool boxed = fits_boxes(g) && make_map(&map_c, g.out, g.c, g.n, g.m, g.ldc, g.items, g.m * g.ldc, 64);
  constexpr std::size_t bytes = sizeof(Shared<tile_n>) + 1024;
  constexpr int rows = tile_m * blocks;
  const std::int64_t tiles = (g.m + rows - 1) / rows * ((g.n + tile_n - 1) / tile_n) * g.items;
  const std::int64_t clusters = std::min<std::int64_t>(tiles, std::max(1, cuda_backend::multiprocessors() / blocks));
  cuda_backend::launch("gemm_hopper", gemm_hopper<T, tile_n, a_mn, b_mn, blocks>,
                       {dim3(static_cast<unsigned>(clusters * blocks)), dim3(threads), bytes, blocks}, g, tiles, boxed,
                       map_a, map_b, map_c);
  return true;
}

template <class T, int tile_n, int blocks> bool choose_layout(const Gemm& g) {
  if (g.a_transposed) {
    return g.b_transposed ? launch<T, tile_n, true, false, blocks>(g) : launch<T, tile_n, true, true, blocks>(g);
  }
  return g.b_transposed ? launch<T, tile_n, false, false, blocks>(g) : launch<T, tile_n, false, true, blocks>(g);
}
// Starts the kernel for the layout of g, if T is its dtype.
template <class T> bool choose_tile(const Gemm& g, int tile, int blocks) {
  if (blocks == 2) return choose_layout<T, 256, 2>(g);
  return tile == 256 ? choose_layout<T, 256, 1>(g) : choose_layout<T, 128, 1>(g);
}

}  // namespace mantissa::tensor_core::sm90
