// Sorting of lines of keys: each line separately, equal keys by position, so that results never depend on thread
// scheduling. Tiles are sorted in shared memory (bitonic sort); then runs are merged pairwise: each element finds its
// place by binary search in the other run. Used by argsort and by ordered additions.
#pragma once

#include <cstdint>

#include "cuda/reduction.cuh"

namespace mantissa::cuda_backend {

// An integer key with the same order as the value: NaN above all, both zeros equal.
template <class C> __device__ inline std::uint64_t ordered_bits(C v) {
  constexpr std::uint64_t top = std::uint64_t{1} << 63;
  if constexpr (std::is_integral_v<C>) {
    return static_cast<std::uint64_t>(v) ^ top;
  } else {
    if (!(v == v)) return ~std::uint64_t{0};
    const double wide = v == 0 ? 0.0 : static_cast<double>(v);
    std::uint64_t bits;
    memcpy(&bits, &wide, sizeof bits);
    return bits & top ? ~bits : bits | top;
  }
}

struct Keyed {  // a key and its position in the line
  std::uint64_t key;
  std::uint32_t position;
  __device__ bool operator<(const Keyed& o) const { return key < o.key || (key == o.key && position < o.position); }
};

inline constexpr int sort_tile = 1024;

// keys [lines, n]; writes the sorted keys and positions of every tile. Blocks of tile / 2 threads; blockIdx.y is the
// line, with lines_per_launch lines per launch.
template <int unused = 0>
__global__ void sort_tiles_kernel(const std::uint64_t* keys, std::uint64_t* sorted, std::uint32_t* positions,
                                  std::int64_t n, int tile) {
  wait_for_previous_kernel();
  __shared__ std::uint64_t key[sort_tile];
  __shared__ std::uint32_t position[sort_tile];
  const std::int64_t line = std::int64_t{blockIdx.y} * n, first = std::int64_t{blockIdx.x} * tile;
  const int half = tile / 2, me = static_cast<int>(threadIdx.x);
  for (int i = me; i < tile; i += half) {
    const bool inside = first + i < n;
    key[i] = inside ? keys[line + first + i] : ~std::uint64_t{0};
    position[i] = inside ? static_cast<std::uint32_t>(first + i) : 0xffffffffu;
  }
  for (int run = 2; run <= tile; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const int low = 2 * me - (me & (distance - 1)), high = low + distance;  // distance is a power of two
      const Keyed a{key[low], position[low]}, b{key[high], position[high]};
      if (((low & run) == 0) == (b < a)) {
        key[low] = b.key, position[low] = b.position;
        key[high] = a.key, position[high] = a.position;
      }
    }
  }
  __syncthreads();
  for (int i = me; i < tile; i += half) {
    if (first + i < n) sorted[line + first + i] = key[i], positions[line + first + i] = position[i];
  }
}

// Merges pairs of runs of `run` elements.
template <int unused = 0>
__global__ void merge_runs_kernel(const std::uint64_t* keys, const std::uint32_t* positions, std::uint64_t* merged_keys,
                                  std::uint32_t* merged, std::int64_t n, std::int64_t run) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, line = std::int64_t{blockIdx.y} * n;
  if (i >= n) return;
  const Keyed mine{keys[line + i], positions[line + i]};
  const std::int64_t first = i / (2 * run) * 2 * run, middle = first + run < n ? first + run : n,
                     end = first + 2 * run < n ? first + 2 * run : n;
  const bool in_left = i < middle;
  std::int64_t low = in_left ? middle : first, high = in_left ? end : middle;  // the other run
  const std::int64_t other = low;
  while (low < high) {
    const std::int64_t at = (low + high) / 2;
    if (Keyed{keys[line + at], positions[line + at]} < mine) low = at + 1;
    else high = at;
  }
  const std::int64_t to = line + first + (i - (in_left ? first : middle)) + (low - other);
  merged_keys[to] = mine.key;
  merged[to] = mine.position;
}

struct SortedLines {
  Tensor keys, positions;  // [lines, n], u64 as i64 and u32 as i32
};
// Sorts `keys` [lines, n] (i64, overwritten).
inline SortedLines sort_lines(Tensor keys, std::int64_t lines, std::int64_t n) {
  check(n < (std::int64_t{1} << 31), "sorting more than 2^31 elements along one dimension is not supported on cuda");
  const Device device = keys.device();
  SortedLines a{Tensor::allocate({lines, n}, i64, device), Tensor::allocate({lines, n}, i32, device)};
  int tile = 64;
  while (tile < sort_tile && tile < n) tile *= 2;
  constexpr std::int64_t lines_per_launch = 65535;
  const auto launch_lines = [&](auto&& run) {
    for (std::int64_t first = 0; first < lines; first += lines_per_launch) {
      run(first * n, static_cast<unsigned>(std::min(lines - first, lines_per_launch)));
    }
  };
  const auto key_of = [](const Tensor& t, std::int64_t at) { return static_cast<std::uint64_t*>(t.raw_data()) + at; };
  const auto position_of = [](const Tensor& t, std::int64_t at) {
    return static_cast<std::uint32_t*>(t.raw_data()) + at;
  };
  launch_lines([&](std::int64_t at, unsigned count) {
    const Grid grid{dim3(static_cast<unsigned>((n + tile - 1) / tile), count), dim3(static_cast<unsigned>(tile / 2))};
    launch("sort_tiles", &sort_tiles_kernel<0>, grid, key_of(keys, at), key_of(a.keys, at),
           position_of(a.positions, at), n, tile);
  });
  if (n <= tile) return a;
  SortedLines b{std::move(keys), Tensor::allocate({lines, n}, i32, device)};
  for (std::int64_t run = tile; run < n; run *= 2) {
    launch_lines([&](std::int64_t at, unsigned count) {
      Grid grid = grid_for(n);
      grid.blocks.y = count;
      launch("merge_runs", &merge_runs_kernel<0>, grid, key_of(a.keys, at), position_of(a.positions, at),
             key_of(b.keys, at), position_of(b.positions, at), n, run);
    });
    std::swap(a, b);
  }
  return a;
}

// The lines of a tensor along one dimension: their start offsets, and the stride along the dimension.
struct LinesOf {
  Offsets start;
  std::int64_t step = 1, length = 1;
  LinesOf() = default;
  LinesOf(const Dims& sizes, const Dims& strides, int dim) {
    Dims s = sizes, t = strides;
    if (sizes.rank() > 0) {
      step = strides[dim];
      length = sizes[dim];
      s.erase(dim);
      t.erase(dim);
    }
    start = Offsets(s, t);
  }
};

}  // namespace mantissa::cuda_backend
