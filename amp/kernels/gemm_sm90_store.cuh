// How the products for Hopper store a tile: f16 and bf16 results pass through shared memory in boxes that TMA stores
// while the next tile is computed; epilogues that read or write more per element use ordinary stores.
#pragma once

#include "amp/kernels/gemm_sm90_tile.cuh"

namespace mantissa::tensor_core::sm90 {

// The sum of row `thread` of a warpgroup's 64, for its first 64 threads: of what its four warps have added up
// (add_rows).
__device__ inline float sum_of_row(const float (&two_rows)[2], float (&of_warps)[4][64], int consumer) {
  const int thread = threadIdx.x % 128, lane = thread % 32;
  if (thread == 0) hopper::copies_out_wait<0>();  // the space belongs to results that are being stored
  hopper::warpgroup_sync(1 + consumer);
  of_warps[thread / 32][2 * lane] = two_rows[0];
  of_warps[thread / 32][2 * lane + 1] = two_rows[1];
  hopper::warpgroup_sync(1 + consumer);
  float sum = 0;
  for (int w = 0; w < 4 && thread < 64; ++w) sum += of_warps[w][thread];
  hopper::warpgroup_sync(1 + consumer);
  return sum;
}
template <class T>
__device__ inline void store_row_sum(const Gemm& g, const Place& place, int consumer, float row_sum) {
  const int thread = threadIdx.x % 128;
  const std::int64_t row = place.row + 64 * consumer + thread;
  if (thread < 64 && row < g.m) finish_a_sum<T>(g, place.item * g.m + row, row_sum);
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

}  // namespace mantissa::tensor_core::sm90
