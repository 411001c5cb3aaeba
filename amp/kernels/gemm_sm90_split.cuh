// A product for Hopper whose result is too small for every multiprocessor to have a tile: the blocks of a cluster
// compute one tile together, each a part of the steps along k (gemm_sm90_tile.cuh). In the end each block finishes some
// of the columns: it gets the other blocks' sums of them through its own shared memory, adds them in a fixed order and
// stores the result. For sm_90a and the CPU shim, as gemm_sm90.cuh.
#pragma once

#include "amp/kernels/gemm_sm90.cuh"

namespace mantissa::tensor_core::sm90 {

// Sends this thread's sums to the blocks that finish them, where the same thread finds them. Part p of the tile's
// columns is that of block p; a block has one list of parts of all the others, in order.
template <int tile_n, int parts>
__device__ __forceinline__ void send_parts(const float (&d)[tile_n / 2], float4* received, int thread) {
  constexpr int count = tile_n / 2 / parts;
  const int own = static_cast<int>(hopper::block_in_cluster());
#pragma unroll
  for (int p = 0; p < parts; ++p) {
    if (p == own) continue;
    const int list = own - (own > p);  // which of the others this block is
    const std::uint32_t to = hopper::address_in(received + list * count / 4 * consumer_threads + thread, p);
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const float* v = d + p * count + i;
      hopper::store_in(to + i / 4 * consumer_threads * 16, make_float4(v[0], v[1], v[2], v[3]));
    }
  }
}
// own = this block's part of d and of what the others sent.
template <int tile_n, int parts>
__device__ __forceinline__ void add_parts(float (&own)[tile_n / 2 / parts], const float (&d)[tile_n / 2],
                                          const float4* received, int thread) {
  constexpr int count = tile_n / 2 / parts;
#pragma unroll
  for (int p = 0; p < parts; ++p) {
    if (p != static_cast<int>(hopper::block_in_cluster())) continue;
#pragma unroll
    for (int i = 0; i < count; ++i) own[i] = d[p * count + i];
  }
#pragma unroll
  for (int other = 0; other < parts - 1; ++other) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const float4 more = received[(other * count + i) / 4 * consumer_threads + thread];
      own[i] += more.x, own[i + 1] += more.y, own[i + 2] += more.z, own[i + 3] += more.w;
    }
  }
}

template <class T, int tile_n, bool a_mn, bool b_mn, int parts>
__global__ void __launch_bounds__(threads, 1)
    gemm_hopper_split(Gemm g, bool boxed, __grid_constant__ const Maps maps) {
  cuda_backend::wait_for_previous_kernel();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int columns = tile_n / parts;  // that a block finishes
  static_assert(sizeof(Shared<tile_n>::a) >= (parts - 1) * tile_m * columns * sizeof(float));
  MANTISSA_SHARED(char, dynamic);
  auto& shared = aligned_shared<tile_n>(dynamic);
  if (threadIdx.x == 0) make_ring(shared, 1);
  __syncthreads();

  const int warpgroup = threadIdx.x / 128, own = static_cast<int>(hopper::block_in_cluster());
  const auto steps = static_cast<int>((g.k + tile_k - 1) / tile_k);
  const int first = steps * own / parts, last = steps * (own + 1) / parts;
  Place place = place_of(g, blockIdx.x / parts, tile_m, tile_n);
  Turn turn;
  if (warpgroup == 0) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) copy_steps<tile_n, a_mn, b_mn, 1>(place, first, last, shared, turn, &maps.a, &maps.b);
    __syncwarp();
    hopper::cluster_sync();
    hopper::cluster_sync();
  } else {
    hopper::take_registers<232>();
    const int consumer = warpgroup - 1, thread = static_cast<int>(threadIdx.x) - 128;
    float d[tile_n / 2] = {}, no_sums[2];
    multiply_steps<T, tile_n, a_mn, b_mn, 1>(first, last, shared, consumer, turn, d, false, no_sums);
    finish_steps<tile_n, 1>(shared, turn);
    auto* const received = reinterpret_cast<float4*>(shared.a);
    hopper::cluster_sync();  // the rings of all blocks have been read
    send_parts<tile_n, parts>(d, received, thread);
    hopper::cluster_sync();
    float sums[columns / 2];
    add_parts<tile_n, parts>(sums, d, received, thread);
    place.column += own * columns;
    auto& results = shared.results[consumer];
    constexpr bool whole_boxes = columns % box_columns == 0;
    if constexpr (whole_boxes) {
      if (boxed) store_boxes<T, columns>(g, place, consumer, sums, results.boxes, maps);
    }
    if (!whole_boxes || !boxed) store_slices<T, columns>(g, place, consumer, sums, results.slice);
    else if (thread % 128 == 0) hopper::copies_out_wait<0>();  // shared memory ends with the block
  }
#endif
}

template <class T, int tile_n, int parts> bool launch_split(const Gemm& g) {
  return with_layout(g, [&]<bool a_mn, bool b_mn>(std::bool_constant<a_mn>, std::bool_constant<b_mn>) {
    Maps maps;
    bool boxed = false;
    if (!make_maps<a_mn, b_mn>(g, tile_n, &maps, &boxed)) return false;
    const std::int64_t blocks = (g.m + tile_m - 1) / tile_m * ((g.n + tile_n - 1) / tile_n) * g.items * parts;
    if (blocks > INT32_MAX) return false;
    cuda_backend::launch("gemm_hopper_split", gemm_hopper_split<T, tile_n, a_mn, b_mn, parts>,
                         {dim3(static_cast<unsigned>(blocks)), dim3(threads), shared_bytes<tile_n>, parts}, g,
                         boxed, maps);
    return true;
  });
}

}  // namespace mantissa::tensor_core::sm90
