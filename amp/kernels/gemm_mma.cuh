// A matrix product with mma.sync for every Tensor Core since Ampere.
// A block of 8 warps computes a tile of c; tiles of a and b pass through a ring of shared-memory stages that cp.async
// fills ahead. Tiles keep the order of global memory (the contiguous dimension stays contiguous), and ldmatrix
// transposes them as needed; 16-byte chunks are swizzled so that neither copies nor ldmatrix have bank conflicts.
// Follows "CUTLASS: Fast Linear Algebra in CUDA C++" (NVIDIA, 2017) and the PTX ISA.
#pragma once

#include "amp/kernels/gemm_finish.cuh"
#include "cuda/launch.cuh"
#include "cuda/ptx.cuh"

namespace mantissa::tensor_core {

inline constexpr int block_k = 32;    // two steps of k16: 64 bytes of each row
inline constexpr int stages = 4;
inline constexpr int gemm_threads = 256;
inline constexpr int chunk = 8;       // elements in 16 bytes

// The tile of one operand in shared memory. `outer` is its extent along m or n, the other extent is block_k.
// k_contiguous: [outer][block_k], four chunks per row; otherwise [block_k][outer].
template <int outer, bool k_contiguous> struct Tile {
  static constexpr int row_chunks = (k_contiguous ? block_k : outer) / chunk;
  static constexpr int rows = k_contiguous ? outer : block_k;
  static constexpr int bytes = outer * block_k * 2;

  // Offset of chunk `c` of row `r`. Rows of 64 bytes: two share a 128-byte line, so the pair number is mixed into the
  // swizzle.
  __device__ static int offset(int r, int c) {
    const int mixed = k_contiguous ? c ^ ((r >> 1) & 3) : c ^ (r & 7);
    return (r * row_chunks + mixed) * 16;
  }
};

// One operand in global memory for this block: rows of the stored matrix from `row`, columns from `column`.
struct Source {
  const std::uint16_t* data;
  std::int64_t leading, rows, columns;  // of the whole stored matrix
};

// Copies a tile. vector: rows are 16-byte aligned, so whole chunks can be copied; elements beyond the matrix become
// zero.
template <class T, bool vector>
__device__ inline void fetch(char* shared, const Source& s, std::int64_t first_row, std::int64_t first_column,
                             std::int64_t end_column) {
#pragma unroll
  for (int i = threadIdx.x; i < T::rows * T::row_chunks; i += gemm_threads) {
    const int r = i / T::row_chunks, c = i % T::row_chunks;
    const std::int64_t row = first_row + r, column = first_column + c * chunk;
    const bool inside = row < s.rows && column < end_column;
    const int valid = inside ? static_cast<int>(end_column - column < chunk ? end_column - column : chunk) : 0;
    char* to = shared + T::offset(r, c);
    const std::uint16_t* from = inside ? s.data + row * s.leading + column : s.data;
    if constexpr (vector) {
      ptx::copy_async_16(to, from, 2 * valid);
    } else {
      alignas(16) std::uint16_t e[chunk];
#pragma unroll
      for (int j = 0; j < chunk; ++j) e[j] = j < valid ? from[j] : std::uint16_t{0};
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(e);
    }
  }
}

// The four registers of a warp's 16x16 fragment: rows outer, columns k. `at` is its first row, `k` 0 or 16.
template <class T, bool k_contiguous>
__device__ inline void load_16x16(std::uint32_t (&r)[4], const char* tile, int at, int k) {
  const int lane = threadIdx.x % 32, matrix = lane / 8, line = lane % 8;
  const int outer = at + (matrix % 2) * 8, inner = k + (matrix / 2) * 8;
  if constexpr (k_contiguous) {
    ptx::load_matrices<false>(r, tile + T::offset(outer + line, inner / chunk));
  } else {
    ptx::load_matrices<true>(r, tile + T::offset(inner + line, outer / chunk));
  }
}

// Shared memory of a block: the ring, later reused for the finished tile in f32 (rows padded by 8 against bank
// conflicts).
template <int tile> constexpr int gemm_shared_bytes() {
  const int ring = stages * 2 * tile * block_k * 2, result = tile * (tile + 8) * 4;
  return ring > result ? ring : result;
}

// grid: x items times tiles of c, y parts of k. With more than one part, sums are written to partial[part][item][m][n]
// and gemm_combine finishes.
template <class T, int tile, bool a_transposed, bool b_transposed, bool vector>
__global__ void __launch_bounds__(gemm_threads) gemm_mma(Gemm g, float* partial, std::int64_t k_part) {
  cuda_backend::wait_for_previous_kernel();
  using TileA = Tile<tile, !a_transposed>;
  using TileB = Tile<tile, b_transposed>;
  constexpr int warps_n = tile == 128 ? 4 : 2, warps_m = 8 / warps_n;
  constexpr int warp_m = tile / warps_m, warp_n = tile / warps_n;  // 64x32 or 16x32
  constexpr int count_m = warp_m / 16, count_n = warp_n / 8;
  MANTISSA_SHARED(char, shared);

  // Neighbouring blocks share rows of a and columns of b in L2: 8 tile rows are covered before the next column.
  const std::int64_t tiles_m = (g.m + tile - 1) / tile, tiles_n = (g.n + tile - 1) / tile;
  const std::int64_t item = blockIdx.x / (tiles_m * tiles_n), index = blockIdx.x % (tiles_m * tiles_n);
  const std::int64_t group = index / (8 * tiles_n), first = group * 8;
  const std::int64_t height = tiles_m - first < 8 ? tiles_m - first : 8;
  const std::int64_t inside = index - group * 8 * tiles_n;
  const std::int64_t row0 = (first + inside % height) * tile, column0 = inside / height * tile;
  const std::int64_t k0 = blockIdx.y * k_part, k1 = k0 + k_part < g.k ? k0 + k_part : g.k;

  std::int64_t a_offset, b_offset;
  g.batch.offsets(item, &a_offset, &b_offset);
  const auto* a = static_cast<const std::uint16_t*>(g.a) + a_offset;
  const auto* b = static_cast<const std::uint16_t*>(g.b) + b_offset;
  const Source source_a{a, g.lda, a_transposed ? k1 : g.m, a_transposed ? g.m : k1};
  const Source source_b{b, g.ldb, b_transposed ? g.n : k1, b_transposed ? k1 : g.n};

  const auto slot_a = [&](int s) { return shared + s * (TileA::bytes + TileB::bytes); };
  const auto slot_b = [&](int s) { return slot_a(s) + TileA::bytes; };
  const int steps = static_cast<int>((k1 - k0 + block_k - 1) / block_k);
  const auto start = [&](int step) {
    if (step < steps) {
      const std::int64_t k = k0 + step * block_k;
      const int s = step % stages;
      fetch<TileA, vector>(slot_a(s), source_a, a_transposed ? k : row0, a_transposed ? row0 : k, source_a.columns);
      fetch<TileB, vector>(slot_b(s), source_b, b_transposed ? column0 : k, b_transposed ? k : column0,
                           source_b.columns);
    }
    ptx::copy_async_commit();  // even if empty, so that the number of groups identifies the step
  };
  for (int s = 0; s < stages - 1; ++s) start(s);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int at_m = warp / warps_n * warp_m, at_n = warp % warps_n * warp_n;
  ptx::Accumulator sums[count_m][count_n], a_sums[count_m];
  const bool wants_a_sums = g.a_sums != nullptr && column0 == 0 && warp % warps_n == 0;
  const std::uint32_t two_ones = 0x00010001u * T(1.0f).bits;
  const ptx::FragmentB ones{{two_ones, two_ones}};

  for (int step = 0; step < steps; ++step) {
    ptx::copy_async_wait<stages - 2>();
    __syncthreads();  // all threads' copies of this stage have arrived, and the previous stage has been read
    start(step + stages - 1);
    const char *tile_a = slot_a(step % stages), *tile_b = slot_b(step % stages);
#pragma unroll
    for (int k = 0; k < block_k; k += 16) {
      ptx::FragmentA fa[count_m];
      ptx::FragmentB fb[count_n];
#pragma unroll
      for (int i = 0; i < count_m; ++i) load_16x16<TileA, !a_transposed>(fa[i].v, tile_a, at_m + 16 * i, k);
#pragma unroll
      for (int j = 0; j < count_n; j += 2) {  // two pieces of 8 columns at once
        std::uint32_t r[4];
        load_16x16<TileB, b_transposed>(r, tile_b, at_n + 8 * j, k);
        fb[j] = {{r[0], r[2]}};
        fb[j + 1] = {{r[1], r[3]}};
      }
#pragma unroll
      for (int i = 0; i < count_m; ++i) {
#pragma unroll
        for (int j = 0; j < count_n; ++j) ptx::mma<T>(sums[i][j], fa[i], fb[j]);
        if (wants_a_sums) ptx::mma<T>(a_sums[i], fa[i], ones);
      }
    }
  }
  ptx::copy_async_wait<0>();
  __syncthreads();

  // Through shared memory, so that stores to c are coalesced along its rows.
  constexpr int padded = tile + 8;
  float* result = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < count_m; ++i) {
#pragma unroll
    for (int j = 0; j < count_n; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* to = result + (at_m + 16 * i + 8 * half + lane / 4) * padded + at_n + 8 * j + lane % 4 * 2;
        *reinterpret_cast<float2*>(to) = make_float2(sums[i][j].v[2 * half], sums[i][j].v[2 * half + 1]);
      }
    }
    if (wants_a_sums && lane % 4 == 0) {
      for (int half = 0; half < 2; ++half) {
        const std::int64_t row = row0 + at_m + 16 * i + 8 * half + lane / 4;
        if (row >= g.m) continue;
        const std::int64_t at = item * g.m + row;
        if (partial) partial[gridDim.y * g.items * g.m * g.n + blockIdx.y * g.items * g.m + at] = a_sums[i].v[2 * half];
        else finish_a_sum<T>(g, at, a_sums[i].v[2 * half]);
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x * 4; i < tile * tile; i += gemm_threads * 4) {
    const int r = i / tile, c = i % tile;
    const std::int64_t row = row0 + r, column = column0 + c;
    if (row >= g.m || column >= g.n) continue;
    // Read at once: one by one, four neighbouring threads would use the same bank.
    const float4 four = *reinterpret_cast<const float4*>(result + r * padded + c);
    const float v[4] = {four.x, four.y, four.z, four.w};
    if (!partial) {
      finish_four<T>(g, item, row, column, v);
    } else {
      float* to = partial + ((blockIdx.y * g.items + item) * g.m + row) * g.n + column;
      write_some(to, v, g.n - column < 4 ? static_cast<int>(g.n - column) : 4);
    }
  }
}

// Adds the parts of k in order and finishes. The parts of a_sums follow those of c.
template <class T>
__global__ void __launch_bounds__(gemm_threads) gemm_combine(Gemm g, const float* partial, int parts) {
  cuda_backend::wait_for_previous_kernel();
  const std::int64_t count = g.items * g.m * g.n, step = std::int64_t{gridDim.x} * gemm_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * gemm_threads + threadIdx.x; i < count; i += step) {
    float v = 0;
    for (int p = 0; p < parts; ++p) v += partial[p * count + i];
    finish_one<T>(g, i / (g.m * g.n), i / g.n % g.m, i % g.n, v);
  }
  if (!g.a_sums) return;
  const std::int64_t rows = g.items * g.m;
  for (std::int64_t i = std::int64_t{blockIdx.x} * gemm_threads + threadIdx.x; i < rows; i += step) {
    float v = 0;
    for (int p = 0; p < parts; ++p) v += partial[parts * count + p * rows + i];
    finish_a_sum<T>(g, i, v);
  }
}

// Starts the kernel for the layout of g, if T is its dtype.
template <class T, int tile, bool vector> void launch_layout(const Gemm& g, int parts, float* partial) {
  const auto kernel =
      g.a_transposed
          ? (g.b_transposed ? gemm_mma<T, tile, true, true, vector> : gemm_mma<T, tile, true, false, vector>)
          : (g.b_transposed ? gemm_mma<T, tile, false, true, vector> : gemm_mma<T, tile, false, false, vector>);
  const std::int64_t steps = (g.k + block_k - 1) / block_k, k_part = (steps + parts - 1) / parts * block_k;
  const std::int64_t tiles = (g.m + tile - 1) / tile * ((g.n + tile - 1) / tile) * g.items;
  check(tiles <= 0x7fffffff, "internal error: ", tiles, " tiles do not fit into one launch");
  const dim3 blocks(static_cast<unsigned>(tiles), static_cast<unsigned>(parts));
  cuda_backend::launch("gemm_mma", kernel, {blocks, dim3(gemm_threads), gemm_shared_bytes<tile>()}, g,
                       parts > 1 ? partial : nullptr, k_part);
  if (parts > 1) {
    cuda_backend::launch("gemm_combine", gemm_combine<T>, cuda_backend::grid_for(g.items * g.m * g.n, 4, gemm_threads),
                         g, partial, parts);
  }
}

}  // namespace mantissa::tensor_core
