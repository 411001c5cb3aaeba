// Shared by the row normalizations (layer norm and RMS norm in cuda/norm.cu and norm_backward.cuh, group norm in
// cuda/group_norm.cu): the statistics of a row, and the second stage of the gradients of weight and bias.
#pragma once

#include "cuda/rows.cuh"

namespace mantissa::cuda_backend {

// Sums v[0], v[1], ... over the threads of a row; every thread gets them. scratch: 32 * count elements of shared
// memory, which may be reused at once. join_warps: the same for values already summed within each warp.
template <int count, class C> __device__ inline void join_warps(C (&v)[count], C* scratch) {
  const int thread = static_cast<int>(threadIdx.x), warps = static_cast<int>(blockDim.x) / 32, lane = thread % 32;
  if (warps == 1) return;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (lane == 0) scratch[32 * i + thread / 32] = v[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) v[i] = fold_warp<Sum>(lane < warps ? scratch[32 * i + lane] : C(0));
  __syncthreads();
}
template <int count, class C> __device__ inline void sum_over_row(C (&v)[count], C* scratch) {
#pragma unroll
  for (int i = 0; i < count; ++i) v[i] = fold_warp<Sum>(v[i]);
  join_warps(v, scratch);
}

// Mean and sum of squared deviations of part of a row; join() merges two parts (Chan, Golub and LeVeque, 1979).
template <class C> struct Spread {
  C count = 0, mean = 0, squares = 0;
  __device__ void join(const Spread& other) {
    if (other.count == C(0)) return;
    const C all = count + other.count, share = other.count / all, away = other.mean - mean;
    mean += away * share;
    squares += other.squares + away * away * (count * share);
    count = all;
  }
};
template <class C> __device__ inline Spread<C> join_warp(Spread<C> s) {
  for (int distance = 16; distance > 0; distance /= 2) {
    s.join({__shfl_down_sync(all_lanes, s.count, distance), __shfl_down_sync(all_lanes, s.mean, distance),
            __shfl_down_sync(all_lanes, s.squares, distance)});
  }
  return {__shfl_sync(all_lanes, s.count, 0), __shfl_sync(all_lanes, s.mean, 0), __shfl_sync(all_lanes, s.squares, 0)};
}

template <class C> struct RowStatistics { C mean, inv_std; };

// scratch: 96 elements of shared memory. A row held in registers is traversed twice, so that a large mean costs no
// precision; one that is not is read once, and the threads' statistics are merged. Without centring the mean is 0.
template <class C, int width, int held>
__device__ inline RowStatistics<C> statistics_of(Row<C, width, held, 1>& row, bool centred, C eps, C* scratch) {
  const C n = C(row.shape.n);
  if (held > 0 || !centred) {
    const C mean = centred ? row.template fold<Sum>(scratch, [](C v) { return v; }) / n : C(0);
    const C var = row.template fold<Sum>(scratch, [=](C v) { return (v - mean) * (v - mean); }) / n;
    return {mean, C(1) / std::sqrt(var + eps)};
  }
  Spread<C> mine;
  row.each([&](const Quads&, const C(&v)[1][width]) {
    Spread<C> slot{C(width)};
#pragma unroll
    for (int k = 0; k < width; ++k) slot.mean += v[0][k];
    slot.mean /= C(width);
#pragma unroll
    for (int k = 0; k < width; ++k) slot.squares += (v[0][k] - slot.mean) * (v[0][k] - slot.mean);
    mine.join(slot);
  });
  mine = join_warp(mine);
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32,
            lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) scratch[warp] = mine.count, scratch[32 + warp] = mine.mean, scratch[64 + warp] = mine.squares;
  __syncthreads();
  mine = lane < warps ? Spread<C>{scratch[lane], scratch[32 + lane], scratch[64 + lane]} : Spread<C>{};
  __syncthreads();
  mine = join_warp(mine);
  return {mine.mean, C(1) / std::sqrt(mine.squares / n + eps)};
}

// The second stage of sums over rows. partial[stretches][columns], columns: n of dweight, then n of dbias if wanted.
inline constexpr int joining_warps = 32;  // per block: there are few blocks, and their warps wait for memory
template <class C>
__global__ void __launch_bounds__(32 * joining_warps)
    sum_stretches(RowOperand dweight, RowOperand dbias, const C* partial, std::int64_t n, std::int64_t columns,
                  std::int64_t stretches) {
  wait_for_previous_kernel();
  __shared__ C sums[joining_warps][32];
  const std::int64_t i = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
  C sum = 0;
  for (std::int64_t s = threadIdx.y; s < stretches && i < columns; s += joining_warps) sum += partial[s * columns + i];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || i >= columns) return;
  for (int w = 1; w < joining_warps; ++w) sum += sums[w][threadIdx.x];
  const RowOperand& to = i < n ? dweight : dbias;
  store_element(to.data, to.dtype, i < n ? i : i - n, sum);
}
template <class C>
void launch_sums(const View& dweight, const View& dbias, const C* partial, std::int64_t n, std::int64_t columns,
                 std::int64_t stretches) {
  const Grid grid{dim3(static_cast<unsigned>((columns + 31) / 32)), dim3(32, joining_warps)};
  launch("sum_stretches", sum_stretches<C>, grid, operand(dweight), operand(dbias), partial, n, columns, stretches);
}

inline void check_row(std::int64_t n) {
  check(n <= longest_row, "cannot normalise ", n, " elements together on a GPU; at most ", longest_row);
}

}  // namespace mantissa::cuda_backend
