// What the products for Hopper share: a ring of shared-memory stages that one thread fills by TMA, and two warpgroups
// that multiply from it by wgmma, 64 rows of a tile each. A warpgroup's product is executed by its four warps, and
// waiting for it only covers the own warp: a stage is free when every warp of both warpgroups has signalled that it has
// finished reading.
#pragma once

#include <cuda.h>

#include <bit>
#include <cstdint>

#include "amp/kernels/gemm_finish.cuh"
#include "amp/kernels/hopper.cuh"
#include "amp/kernels/hopper_layout.h"

namespace mantissa::tensor_core::sm90 {

inline constexpr int tile_m = 128, tile_k = 64;  // 64 elements: one swizzled line of 128 bytes
static_assert(tile_k == hopper::line);
inline constexpr int ring = 4;
inline constexpr int threads = 384;              // a producer and two consumer warpgroups
inline constexpr int consumer_warps = 8, consumer_threads = 256;
inline constexpr int rows_walked = 16;           // tile rows covered before the next column, see place_of
inline constexpr int slice = 32, slice_row = slice + 8;  // columns stored at once; rows padded against bank conflicts
inline constexpr int box_columns = 64;    // of results stored by TMA: one swizzled line of 128 bytes

template <int tile_n> struct Shared {
  alignas(1024) std::uint16_t a[ring][tile_m * tile_k];
  alignas(1024) std::uint16_t b[ring][tile_n * tile_k];
  union Results {  // of a warpgroup, to be stored
    std::uint16_t boxes[2][64 * box_columns];  // one is stored while the other is filled
    float slice[64 * slice_row];
    float row_sums[4][64];  // of each warp
  };
  alignas(1024) Results results[2];
  std::uint64_t full[ring], empty[ring];
};
// With space to begin at a multiple of 1024 bytes: an offset instead of a rounded pointer, which the compiler would not
// recognize as shared memory.
template <int tile_n> inline constexpr std::size_t shared_bytes = sizeof(Shared<tile_n>) + 1024;
template <int tile_n> __device__ inline Shared<tile_n>& aligned_shared(char* dynamic) {
  return *reinterpret_cast<Shared<tile_n>*>(dynamic + (-hopper::shared_address(dynamic) & 1023));
}

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

// Where a thread is in the ring; parity: of the round.
struct Turn {
  int stage = 0, parity = 0;
  __device__ void next() {
    if (++stage == ring) stage = 0, parity ^= 1;
  }
};

// By one thread, followed by a barrier of all that use the ring. blocks: that read what a block copies.
template <int tile_n> __device__ inline void make_ring(Shared<tile_n>& shared, int blocks) {
  for (int s = 0; s < ring; ++s) {
    hopper::barrier_init(&shared.full[s], 1);
    hopper::barrier_init(&shared.empty[s], consumer_warps * blocks);
  }
  hopper::barrier_init_done();
}

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

// Copies the operands for steps first .. last - 1 along k of a tile. Of b each block of a cluster copies its part, to
// all of them.
template <int tile_n, bool a_mn, bool b_mn, int blocks>
__device__ __forceinline__ void copy_steps(const Place& place, int first, int last, Shared<tile_n>& shared, Turn& turn,
                                           const CUtensorMap* map_a, const CUtensorMap* map_b) {
  constexpr int part = tile_n / blocks;
  const int from = blocks > 1 ? part * static_cast<int>(hopper::block_in_cluster()) : 0;
  for (int step = first; step < last; ++step) {
    const int s = turn.stage;
    hopper::barrier_wait(&shared.empty[s], turn.parity ^ 1);  // the first round finds every stage empty
    hopper::barrier_expect(&shared.full[s], (tile_m + tile_n) * tile_k * 2);
    copy_operand<tile_m, a_mn>(shared.a[s], map_a, &shared.full[s], place.row, step * tile_k, place.item);
    copy_operand<part, b_mn, (blocks > 1)>(shared.b[s] + hopper::operand_offset<b_mn>(from, 0), map_b, &shared.full[s],
                                           place.column + from, step * tile_k, place.item);
    turn.next();
  }
}

// The descriptor of the 16 columns of k from `k`, rows from `outer` on.
template <bool mn> __device__ inline std::uint64_t operand(const std::uint16_t* tile, int outer, int k) {
  return hopper::descriptor<mn>(hopper::shared_address(tile + hopper::operand_offset<mn>(outer, k)));
}

// A warp has read a stage: signals all blocks that copy into it.
template <int blocks> __device__ inline void release(std::uint64_t* empty, int lane) {
  if constexpr (blocks == 1) {
    if (lane == 0) hopper::barrier_arrive(empty);
  } else {
    if (lane < blocks) hopper::barrier_arrive_in(empty, lane);
  }
}

// Two rows of a, of which m is contiguous: adds those elements of a stage that belong to this thread. Each warp of a
// warpgroup takes 16 of the 64 lines of k, each lane two of the 64 rows. box: of the warpgroup's rows.
template <class T> __device__ __forceinline__ void add_rows(const std::uint16_t* box, float (&sums)[2]) {
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16;
  float more[2] = {0, 0};  // apart: so that long sums keep their precision
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int at = (first + i) * hopper::line + (lane / 4 ^ i % 8) * 8 + lane % 4 * 2;
    const auto pair = *reinterpret_cast<const std::uint32_t*>(box + at);
    more[0] += static_cast<float>(std::bit_cast<T>(static_cast<std::uint16_t>(pair)));
    more[1] += static_cast<float>(std::bit_cast<T>(static_cast<std::uint16_t>(pair >> 16)));
  }
  sums[0] += more[0];
  sums[1] += more[1];
}

// d = the products of steps first .. last - 1. sum_rows: adds to row_sums what this thread has of two rows of a
// (add_rows). Some products are still under way at the end; finish_steps waits for them.
template <class T, int tile_n, bool a_mn, bool b_mn, int blocks>
__device__ __forceinline__ void multiply_steps(int first, int last, Shared<tile_n>& shared, int consumer, Turn& turn,
                                               float (&d)[tile_n / 2], bool sum_rows, float (&row_sums)[2]) {
  const int lane = threadIdx.x % 32;
  int before = 0;
  for (int step = first; step < last; ++step) {
    const int s = turn.stage;
    hopper::barrier_wait(&shared.full[s], turn.parity);
    hopper::wgmma_begin();
#pragma unroll
    for (int k = 0; k < tile_k; k += 16) {
      hopper::Wgmma<T, tile_n, a_mn, b_mn>::run(d, operand<a_mn>(shared.a[s], 64 * consumer, k),
                                                operand<b_mn>(shared.b[s], 0, k), step > first || k > 0);
    }
    hopper::wgmma_commit();
    if constexpr (a_mn) {
      if (sum_rows) {  // while the products are under way
        add_rows<T>(shared.a[s] + hopper::operand_offset<true>(64 * consumer, 0), row_sums);
        __syncwarp();  // all lanes have read before one of them releases the stage
      }
    }
    hopper::wgmma_wait<1>();  // this warp's products of the previous step are done
    if (step > first) release<blocks>(&shared.empty[before], lane);
    before = s;
    turn.next();
  }
}
template <int tile_n, int blocks>
__device__ __forceinline__ void finish_steps(Shared<tile_n>& shared, const Turn& turn) {
  hopper::wgmma_wait<0>();
  release<blocks>(&shared.empty[(turn.stage + ring - 1) % ring], threadIdx.x % 32);
}

}  // namespace mantissa::tensor_core::sm90
