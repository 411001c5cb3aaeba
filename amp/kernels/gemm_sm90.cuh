// A matrix product for Hopper: wgmma fed by TMA through a ring of shared-memory stages, warp-specialized. One thread of
// the first warpgroup only starts copies; two warpgroups compute 64 rows of the tile each (gemm_sm90_tile.cuh).
// Blocks are persistent, so the copies of the next tile run while the last one is stored (gemm_sm90_store.cuh). Two
// blocks can form a cluster that computes vertically adjacent tiles: each copies half of the shared part of b into
// both, so that a block reads a third less from L2. Where whole tiles would leave some clusters idle at the end, all
// can take equal shares of all steps along k instead (stream-K), and add what they have of a tile.
// For sm_90a, and for the CPU shim with counterparts of its instructions; on a GPU each use is first compared with
// another implementation (cuda/tuner.h). Compiled for other GPUs the kernel is empty.
// Source of the shares: Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
// Multiplication on the GPU" (2023).
#pragma once

#include <algorithm>
#include <type_traits>

#include "amp/kernels/gemm_sm90_store.cuh"

namespace mantissa::tensor_core::sm90 {

// Creates the tensor map of a stored matrix [items][rows][columns], with boxes of 64 columns and `box_rows` rows; false
// if the driver refuses. amp/kernels/gemm_sm90.cu
bool make_map(CUtensorMap* map, Dtype dtype, const void* p, std::int64_t columns, std::int64_t rows,
              std::int64_t leading, std::int64_t items, std::int64_t item_stride, int box_rows);

// Whether clusters take whole tiles in turn, or equal shares of all steps.
enum class Division { tiles, shares };

// A cluster computes vertically adjacent tiles together: where this block's is in group `index` of them.
template <int tile_n, int blocks> __device__ inline Place own_place(const Gemm& g, std::int64_t index) {
  Place p = place_of(g, index, tile_m * blocks, tile_n);
  if constexpr (blocks > 1) p.row += static_cast<int>(hopper::block_in_cluster()) * tile_m;
  return p;
}

// The joint work of a cluster: of a group of tiles, the steps first .. last - 1 along k, again and again while there is
// more(). `index` counts the groups.
template <int blocks, Division division> struct Work;

template <int blocks> struct Work<blocks, Division::tiles> {
  std::int64_t index, count;
  int first = 0, last;
  __device__ Work(std::int64_t tiles, int steps) : index(blockIdx.x / blocks), count(tiles), last(steps) {}
  __device__ bool more() const { return index < count; }
  __device__ void next() { index += gridDim.x / blocks; }
};

// A share is worked through from its end to its begin. So what another cluster waits for, the begin of the last tile,
// is computed first.
template <int blocks> struct Work<blocks, Division::shares> {
  int index = 0, first = 0, last = 0, begin, end;
  const int all, steps;  // of all tiles, of one
  __device__ Work(std::int64_t tiles, int steps_of_tile)
      : all(static_cast<int>(tiles) * steps_of_tile), steps(steps_of_tile) {
    begin = begin_of(cluster());
    end = begin_of(cluster() + 1);
    find();
  }
  __device__ bool more() const { return end > begin; }
  __device__ void next() {
    end = index * steps + first;
    find();
  }
  __device__ static int cluster() { return static_cast<int>(blockIdx.x / blocks); }
  __device__ int begin_of(int other) const {
    return static_cast<int>(static_cast<std::int64_t>(all) * other / (gridDim.x / blocks));
  }

 private:
  __device__ void find() {
    if (!more()) return;
    index = (end - 1) / steps;
    first = begin > index * steps ? begin - index * steps : 0;
    last = end - index * steps;
  }
};
inline constexpr std::int64_t most_shared_steps = 1 << 30;

// Global memory through which a block passes what it has of a tile to the block that computes the tile's last steps. A
// block has at most one such tile.
struct Exchange {
  unsigned* ready = nullptr;   // [blocks][2], of each warpgroup; zero at the start
  float* sums = nullptr;       // [blocks][tile_m * tile_n]
  float* row_sums = nullptr;   // [blocks][tile_m]
};
inline std::int64_t exchange_floats(int blocks, int tile_n) { return blocks * (2LL + tile_m * (tile_n + 1)); }
inline Exchange exchange_in(float* space, int blocks, int tile_n) {
  float* const sums = space + 2 * blocks;  // blocks are even in number, so sums begin at a multiple of 16 bytes
  return {reinterpret_cast<unsigned*>(space), sums, sums + std::int64_t{blocks} * tile_m * tile_n};
}

template <int tile_n, bool a_mn, bool b_mn, int blocks, Division division>
__device__ __forceinline__ void produce(const Gemm& g, std::int64_t tiles, int steps, Shared<tile_n>& shared,
                                        const Maps& maps) {
  Turn turn;
  for (Work<blocks, division> w(tiles, steps); w.more(); w.next()) {
    copy_steps<tile_n, a_mn, b_mn, blocks>(own_place<tile_n, blocks>(g, w.index), w.first, w.last, shared, turn,
                                           &maps.a, &maps.b);
  }
  // The other block still signals barriers of this one, which must exist until then.
  for (int i = 0; blocks > 1 && i < ring; ++i) {
    hopper::barrier_wait(&shared.empty[turn.stage], turn.parity ^ 1);
    turn.next();
  }
}

// Passes a warpgroup's sums on, thread by thread.
template <int tile_n>
__device__ __forceinline__ void pass_on(const Exchange& x, int consumer, const float (&d)[tile_n / 2], bool sum_rows,
                                        float row_sum) {
  const int thread = threadIdx.x % 128;
  auto* to = reinterpret_cast<float4*>(x.sums + std::int64_t{blockIdx.x} * tile_m * tile_n) + 128 * consumer + thread;
#pragma unroll
  for (int i = 0; i < tile_n / 2; i += 4)
    __stcg(to + i / 4 * consumer_threads, make_float4(d[i], d[i + 1], d[i + 2], d[i + 3]));
  if (sum_rows && thread < 64) __stcg(x.row_sums + blockIdx.x * tile_m + 64 * consumer + thread, row_sum);
  hopper::warpgroup_sync(1 + consumer);
  if (thread == 0) hopper::raise_flag(x.ready + 2 * blockIdx.x + consumer);
}
// Adds what `block` has passed on.
template <int tile_n>
__device__ __forceinline__ void add_passed(const Exchange& x, int block, int consumer, float (&d)[tile_n / 2],
                                           bool sum_rows, float& row_sum) {
  const int thread = threadIdx.x % 128;
  if (thread == 0) hopper::wait_for_flag(x.ready + 2 * block + consumer);
  hopper::warpgroup_sync(1 + consumer);
  const auto* from =
      reinterpret_cast<const float4*>(x.sums + std::int64_t{block} * tile_m * tile_n) + 128 * consumer + thread;
#pragma unroll
  for (int i = 0; i < tile_n / 2; i += 4) {
    const float4 more = __ldcg(from + i / 4 * consumer_threads);
    d[i] += more.x, d[i + 1] += more.y, d[i + 2] += more.z, d[i + 3] += more.w;
  }
  if (sum_rows && thread < 64) row_sum += __ldcg(x.row_sums + block * tile_m + 64 * consumer + thread);
}

template <class T, int tile_n, bool a_mn, bool b_mn, int blocks, Division division>
__device__ __forceinline__ void consume(const Gemm& g, std::int64_t tiles, int steps, Shared<tile_n>& shared,
                                        int consumer, bool boxed, const Maps& maps, const Exchange& exchange) {
  float d[tile_n / 2] = {};  // initialized, since ptxas 12.4 otherwise serializes the products (warning C7515)
  Turn turn;
  for (Work<blocks, division> w(tiles, steps); w.more(); w.next()) {
    const bool sum_rows = a_mn && g.a_sums && own_place<tile_n, blocks>(g, w.index).column == 0;
    float two_rows[2] = {0, 0};
    multiply_steps<T, tile_n, a_mn, b_mn, blocks>(w.first, w.last, shared, consumer, turn, d, sum_rows, two_rows);
    const Place place = own_place<tile_n, blocks>(g, w.index);  // divisions: while the last products are under way
    finish_steps<tile_n, blocks>(shared, turn);

    auto& results = shared.results[consumer];
    float row_sum = 0;
    if (sum_rows) row_sum = sum_of_row(two_rows, results.row_sums, consumer);
    if constexpr (division == Division::shares) {
      if (w.last < steps) {
        pass_on<tile_n>(exchange, consumer, d, sum_rows, row_sum);
        continue;
      }
      // In descending order back to the cluster that has the tile's first step. These were started before this one, so
      // they run or are done, and each begins with what it passes on.
      bool more = w.first > 0;
      for (int c = w.cluster() - 1; more; --c) {
        const int block = c * blocks + static_cast<int>(blockIdx.x % blocks);
        add_passed<tile_n>(exchange, block, consumer, d, sum_rows, row_sum);
        more = w.begin_of(c) > w.index * steps;
      }
    }
    if (sum_rows) store_row_sum<T>(g, place, consumer, row_sum);
    if (boxed) store_boxes<T, tile_n>(g, place, consumer, d, results.boxes, maps);
    else store_slices<T, tile_n>(g, place, consumer, d, results.slice);
  }
  if (boxed && threadIdx.x % 128 == 0) hopper::copies_out_wait<0>();  // shared memory ends with the block
}

template <class T, int tile_n, bool a_mn, bool b_mn, int blocks, Division division>
__global__ void __launch_bounds__(threads, 1)
    gemm_hopper(Gemm g, std::int64_t tiles, bool boxed, Exchange exchange, __grid_constant__ const Maps maps) {
  cuda_backend::wait_for_previous_kernel();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  MANTISSA_SHARED(char, dynamic);
  auto& shared = aligned_shared<tile_n>(dynamic);
  const int warpgroup = threadIdx.x / 128, steps = static_cast<int>((g.k + tile_k - 1) / tile_k);
  if (threadIdx.x == 0) make_ring(shared, blocks);
  if constexpr (blocks > 1) hopper::cluster_sync();
  else __syncthreads();

  // A single if/else without early return: only then can the compiler move registers from the producer to the
  // consumers.
  if (warpgroup == 0) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) produce<tile_n, a_mn, b_mn, blocks, division>(g, tiles, steps, shared, maps);
  } else {
    hopper::take_registers<232>();
    consume<T, tile_n, a_mn, b_mn, blocks, division>(g, tiles, steps, shared, warpgroup - 1, boxed, maps, exchange);
  }
#endif
}

// b: in boxes of b_columns of its tile. *boxed: whether results are stored in boxes.
template <bool a_mn, bool b_mn> bool make_maps(const Gemm& g, int b_columns, Maps* maps, bool* boxed) {
  const std::int64_t a_step = g.batch.rank ? g.batch.a[0] : 0, b_step = g.batch.rank ? g.batch.b[0] : 0;
  const auto map_result = [&](CUtensorMap* map, const void* p) {
    return make_map(map, g.out, p, g.n, g.m, g.ldc, g.items, g.m * g.ldc, 64);
  };
  *boxed = fits_boxes(g) && map_result(&maps->c, g.c) &&
           (!g.before_activation || map_result(&maps->before, g.before_activation));
  return make_map(&maps->a, g.in, g.a, a_mn ? g.m : g.k, a_mn ? g.k : g.m, g.lda, g.items, a_step,
                  a_mn ? tile_k : tile_m) &&
         make_map(&maps->b, g.in, g.b, b_mn ? g.n : g.k, b_mn ? g.k : g.n, g.ldb, g.items, b_step,
                  b_mn ? tile_k : b_columns);
}
// Calls f(a_mn, b_mn), both std::bool_constant, for the layout of g.
template <class F> bool with_layout(const Gemm& g, F&& f) {
  constexpr std::true_type mn;
  constexpr std::false_type k;
  if (g.a_transposed) return g.b_transposed ? f(mn, k) : f(mn, mn);
  return g.b_transposed ? f(k, k) : f(k, mn);
}

// clusters: of the grid. space: exchange_floats for shares.
template <class T, int tile_n, int blocks, Division division>
bool launch(const Gemm& g, std::int64_t clusters, float* space) {
  return with_layout(g, [&]<bool a_mn, bool b_mn>(std::bool_constant<a_mn>, std::bool_constant<b_mn>) {
    Maps maps;
    bool boxed = false;
    if (!make_maps<a_mn, b_mn>(g, tile_n / blocks, &maps, &boxed)) return false;
    constexpr int rows = tile_m * blocks;
    const std::int64_t tiles = (g.m + rows - 1) / rows * ((g.n + tile_n - 1) / tile_n) * g.items;
    Exchange exchange;
    if constexpr (division == Division::shares) {
      const std::int64_t steps = tiles * ((g.k + tile_k - 1) / tile_k);
      if (steps > most_shared_steps) return false;
      clusters = std::min(clusters, steps);
      exchange = exchange_in(space, static_cast<int>(clusters) * blocks, tile_n);
      const std::size_t bytes = static_cast<std::size_t>(clusters) * blocks * 2 * sizeof(unsigned);
      cuda_backend::check_status(cudaMemsetAsync(exchange.ready, 0, bytes, cuda_backend::stream()), "matmul");
    } else {
      clusters = std::min(clusters, tiles);
    }
    cuda_backend::launch("gemm_hopper", gemm_hopper<T, tile_n, a_mn, b_mn, blocks, division>,
                         {dim3(static_cast<unsigned>(clusters * blocks)), dim3(threads), shared_bytes<tile_n>, blocks},
                         g, tiles, boxed, exchange, maps);
    return true;
  });
}

// Starts the kernel for the layout of g, if T is its dtype.
template <class T> bool choose_tile(const Gemm& g, int tile, int blocks) {
  const int clusters = std::max(1, cuda_backend::multiprocessors() / blocks);
  if (blocks == 2) return launch<T, 256, 2, Division::tiles>(g, clusters, nullptr);
  return tile == 256 ? launch<T, 256, 1, Division::tiles>(g, clusters, nullptr)
                     : launch<T, 128, 1, Division::tiles>(g, clusters, nullptr);
}

}  // namespace mantissa::tensor_core::sm90
