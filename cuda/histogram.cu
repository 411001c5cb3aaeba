// Counts of integers by value. Integers may be added in any order: the counts are the same in every run. Mirrors
// count_values of core/cpu/histogram.cpp.
#include "core/kernel.h"
#include "cuda/launch.cuh"

namespace mantissa {
MANTISSA_KERNEL(count_values, const View& y, const View& x)
}

namespace mantissa::cuda_backend {

void fill(const View& y, double value);  // cuda/copy.cu

namespace {

constexpr std::int64_t few = 4096;  // values that each block counts by itself, in shared memory

__device__ inline bool is_value(std::int64_t v, std::int64_t bins) { return v >= 0 && v < bins; }

__global__ void count_few_kernel(unsigned long long* counts, const std::int64_t* x, std::int64_t n, std::int64_t bins) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(unsigned, table);
  for (std::int64_t v = threadIdx.x; v < bins; v += blockDim.x) table[v] = 0;
  __syncthreads();
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    if (is_value(x[i], bins)) atomicAdd(table + x[i], 1u);
  }
  __syncthreads();
  for (std::int64_t v = threadIdx.x; v < bins; v += blockDim.x) {
    if (table[v] != 0) atomicAdd(counts + v, static_cast<unsigned long long>(table[v]));
  }
}
__global__ void count_many_kernel(unsigned long long* counts, const std::int64_t* x, std::int64_t n,
                                  std::int64_t bins) {
  wait_for_previous_kernel();
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    if (is_value(x[i], bins)) atomicAdd(counts + x[i], 1ull);
  }
}

}  // namespace

void count_values(const View& y, const View& x) {
  fill(y, 0.0);
  const std::int64_t n = x.numel(), bins = y.numel();
  Grid grid = grid_for(n, 16);
  grid.blocks.x = std::min(grid.blocks.x, 1024u);  // of which each adds its counts to all others
  const bool by_block = bins <= few;
  if (by_block) grid.shared = static_cast<std::size_t>(bins) * sizeof(unsigned);
  launch("count_values", by_block ? &count_few_kernel : &count_many_kernel, grid,
         reinterpret_cast<unsigned long long*>(y.as<std::int64_t>()), x.as<const std::int64_t>(), n, bins);
}

}  // namespace mantissa::cuda_backend
