// A matrix product for Hopper: wgmma fed by TMA through a ring of shared-memory stages, roles by warpgroup.
// One warp of the first warpgroup does nothing but start copies; two warpgroups compute 64 rows of the tile each.
// Blocks stay and take tile after tile, so the copies of the next tile run while the last one is stored.
// sm_90a, and the CPU shim by twins of its instructions; on a GPU every use of it is held against another way first
// (cuda/tuner.h).
// A product of a warpgroup is four of its warps, and to have waited for it says something about the own warp alone: a
// stage is free when every warp of both warpgroups has said that it has finished reading.
// Compiled for other GPUs the kernel is empty, and MANTISSA_NO_SM90A says that none of the list is sm_90a.
#include <cuda.h>

#include "amp/kernels/gemm_finish.cuh"
#include "amp/kernels/hopper.cuh"
#include "amp/kernels/hopper_layout.h"
#include "core/error.h"

namespace mantissa::tensor_core {
namespace {

constexpr int tile_m = 128, tile_k = 64;  // 64 elements: one swizzled line of 128 bytes
static_assert(tile_k == hopper::line);
constexpr int ring = 4;
constexpr int threads = 384;              // a producer and two consumer warpgroups
constexpr int consumer_warps = 8;
constexpr int slice = 32, slice_row = slice + 8;  // columns stored at once; rows padded against bank conflicts

template <int tile_n> struct Shared {
  alignas(1024) std::uint16_t a[ring][tile_m * tile_k];
  alignas(1024) std::uint16_t b[ring][tile_n * tile_k];
  float results[2][64 * slice_row];
  std::uint64_t full[ring], empty[ring];
};

// Where a tile lies: 16 tile rows are walked before the next column, so that blocks that run
// together share operands in L2.
struct Place { int item, row, column; };
__device__ inline Place place_of(const Gemm& g, std::int64_t index, int tile_n) {
  const std::int64_t down = (g.m + tile_m - 1) / tile_m, across = (g.n + tile_n - 1) / tile_n;
  const std::int64_t item = index / (down * across), inside = index % (down * across);
  const std::int64_t group = inside / (16 * across), first = group * 16, height = down - first < 16 ? down - first : 16;
  const std::int64_t rest = inside - group * 16 * across;
  return {static_cast<int>(item), static_cast<int>(first + rest % height) * tile_m,
          static_cast<int>(rest / height) * tile_n};
}

// One operand of a stage. Its boxes: amp/kernels/hopper_layout.h.
template <int outer, bool mn>
__device__ inline void copy_operand(std::uint16_t* to, const CUtensorMap* map, std::uint64_t* full, int at, int k,
                                    int item) {
#pragma unroll
  for (int i = 0; i < hopper::boxes_of<mn>(outer); ++i) {
    const int across = at + hopper::line * i;
    hopper::copy_box(to + i * hopper::box_elements, map, full, mn ? across : k, mn ? k : across, item);
  }
}

// The descriptor of the 16 columns of k from `k`, rows from `outer` on.
template <bool mn> __device__ inline std::uint64_t operand(const std::uint16_t* tile, int outer, int k) {
  return hopper::descriptor<mn>(hopper::shared_address(tile + hopper::operand_offset<mn>(outer, k)));
}

template <int tile_n, bool a_mn, bool b_mn>
__device__ __forceinline__ void produce(const Gemm& g, std::int64_t tiles, int steps, Shared<tile_n>& shared,
                                        const CUtensorMap* map_a, const CUtensorMap* map_b) {
  int stage = 0, phase = 0;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const Place place = place_of(g, t, tile_n);
    for (int step = 0; step < steps; ++step) {
      hopper::barrier_wait(&shared.empty[stage], phase ^ 1);  // the first round finds every stage empty
      hopper::barrier_expect(&shared.full[stage], (tile_m + tile_n) * tile_k * 2);
      copy_operand<tile_m, a_mn>(shared.a[stage], map_a, &shared.full[stage], place.row, step * tile_k, place.item);
      copy_operand<tile_n, b_mn>(shared.b[stage], map_b, &shared.full[stage], place.column, step * tile_k, place.item);
      if (++stage == ring) stage = 0, phase ^= 1;
    }
  }
}

template <class T, int tile_n, bool a_mn, bool b_mn>
__device__ __forceinline__ void consume(const Gemm& g, std::int64_t tiles, int steps, Shared<tile_n>& shared,
                                        int consumer) {
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  float d[tile_n / 2] = {};  // written before the first product: else ptxas 12.4 waits for each product in turn (C7515)
  int stage = 0, phase = 0;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const Place place = place_of(g, t, tile_n);
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
      hopper::wgmma_wait<1>();  // this warp's products of the step before are done
      if (step > 0 && lane == 0) hopper::barrier_arrive(&shared.empty[before]);
      before = stage;
      if (++stage == ring) stage = 0, phase ^= 1;
    }
    hopper::wgmma_wait<0>();
    if (lane == 0) hopper::barrier_arrive(&shared.empty[before]);

    float* result = shared.results[consumer];
#pragma unroll
    for (int from = 0; from < tile_n; from += slice) {
#pragma unroll
      for (int j = 0; j < slice / 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float* v = d + (from / 8 + j) * 4 + 2 * half;
          float* to = result + (16 * warp + 8 * half + lane / 4) * slice_row + 8 * j + lane % 4 * 2;
          *reinterpret_cast<float2*>(to) = make_float2(v[0], v[1]);
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
}

template <class T, int tile_n, bool a_mn, bool b_mn>
__global__ void __launch_bounds__(threads, 1)
    gemm_hopper(Gemm g, std::int64_t tiles, __grid_constant__ const CUtensorMap map_a,
                __grid_constant__ const CUtensorMap map_b) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  MANTISSA_SHARED(char, dynamic);
  // An offset, not a rounded pointer: of that the compiler would not know that it is shared memory.
  auto& shared = *reinterpret_cast<Shared<tile_n>*>(dynamic + (-hopper::shared_address(dynamic) & 1023));
  const int warpgroup = threadIdx.x / 128, steps = static_cast<int>((g.k + tile_k - 1) / tile_k);
  if (threadIdx.x == 0) {
    for (int s = 0; s < ring; ++s) {
      hopper::barrier_init(&shared.full[s], 1);
      hopper::barrier_init(&shared.empty[s], consumer_warps);
    }
    hopper::barrier_init_done();
  }
  __syncthreads();

  // One if/else and no early return: only so may the compiler hand registers from the producer to the consumers.
  if (warpgroup == 0) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) produce<tile_n, a_mn, b_mn>(g, tiles, steps, shared, &map_a, &map_b);
  } else {
    hopper::take_registers<232>();
    consume<T, tile_n, a_mn, b_mn>(g, tiles, steps, shared, warpgroup - 1);
  }
#endif
}

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's function, fetched at run time so that the library needs no link to libcuda.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found) !=
      cudaSuccess)
    return nullptr;
#else
  if (cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found) != cudaSuccess)
    return nullptr;
#endif
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

// A stored matrix [items][rows][columns] in boxes of 64 columns and `box_rows` rows.
bool make_map(CUtensorMap* map, Dtype dtype, const void* p, std::int64_t columns, std::int64_t rows,
              std::int64_t leading, std::int64_t items, std::int64_t item_stride, int box_rows) {
  static const Encode encode = find_encode();
  if (!encode) return false;
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows),
                               static_cast<cuuint64_t>(items)};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(leading) * 2,
                                 static_cast<cuuint64_t>(items > 1 ? item_stride : leading * rows) * 2};
  const cuuint32_t box[3] = {64, static_cast<cuuint32_t>(box_rows), 1}, steps[3] = {1, 1, 1};
  return encode(map, dtype == f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
                const_cast<void*>(p), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <class T, int tile_n, bool a_mn, bool b_mn> bool launch(const Gemm& g) {
  CUtensorMap map_a, map_b;
  const std::int64_t a_step = g.batch.rank ? g.batch.a[0] : 0, b_step = g.batch.rank ? g.batch.b[0] : 0;
  const bool mapped =
      make_map(&map_a, g.in, g.a, a_mn ? g.m : g.k, a_mn ? g.k : g.m, g.lda, g.items, a_step, a_mn ? tile_k : tile_m) &&
      make_map(&map_b, g.in, g.b, b_mn ? g.n : g.k, b_mn ? g.k : g.n, g.ldb, g.items, b_step, b_mn ? tile_k : tile_n);
  if (!mapped) return false;
  constexpr std::size_t bytes = sizeof(Shared<tile_n>) + 1024;
  const std::int64_t tiles = (g.m + tile_m - 1) / tile_m * ((g.n + tile_n - 1) / tile_n) * g.items;
  const std::int64_t blocks = std::min<std::int64_t>(tiles, cuda_backend::multiprocessors());
  cuda_backend::launch("gemm_hopper", gemm_hopper<T, tile_n, a_mn, b_mn>,
                       {dim3(static_cast<unsigned>(blocks)), dim3(threads), bytes}, g, tiles, map_a, map_b);
  return true;
}

template <class T, int tile_n> bool choose_layout(const Gemm& g) {
  if (g.a_transposed) return g.b_transposed ? launch<T, tile_n, true, false>(g) : launch<T, tile_n, true, true>(g);
  return g.b_transposed ? launch<T, tile_n, false, false>(g) : launch<T, tile_n, false, true>(g);
}

bool aligned(const void* p, std::int64_t leading) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0 && leading % 8 == 0;
}

}  // namespace

bool run_hopper(const Gemm& g, int tile) {
#if defined(MANTISSA_NO_SM90A)
  constexpr bool compiled = false;
#else
  constexpr bool compiled = true;
#endif
  if (!compiled) return false;
  const bool one_stride =
      g.batch.rank <= 1 &&
      (g.items == 1 || (g.batch.a[0] > 0 && g.batch.a[0] % 8 == 0 && g.batch.b[0] > 0 && g.batch.b[0] % 8 == 0));
  if (!is_half(g.in) || g.k == 0 || g.a_sums || !one_stride || !aligned(g.a, g.lda) || !aligned(g.b, g.ldb))
    return false;
  if (g.in == f16) return tile == 256 ? choose_layout<Half, 256>(g) : choose_layout<Half, 128>(g);
  return tile == 256 ? choose_layout<BFloat16, 256>(g) : choose_layout<BFloat16, 128>(g);
}

}  // namespace mantissa::tensor_core
