// The host's part of a launch, which needs no types of a kernel's parameters: compiled once, in cuda/launch.cpp.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace mantissa::cuda_backend {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared = 0;  // bytes of dynamic shared memory
  // Cluster size: this many blocks, adjacent along x, run together and can access each other's shared memory. sm_90 and
  // later; blocks.x must be a multiple of it.
  unsigned cluster = 1;
};

inline constexpr int block_size = 256;
// Enough blocks of `threads` for n items, `each` per thread. At most 2^31 - 1 blocks; n = 0 gives none.
Grid grid_for(std::int64_t n, int each = 1, int threads = block_size);
// One block per row, with as many threads (whole warps, at most `most`) as the row can use.
Grid grid_for_rows(std::int64_t rows, std::int64_t length, int most = 512);

// Enqueues a kernel on the current stream, named for profilers, and reports failures. `parameters`: their addresses.
void enqueue(const char* name, const void* kernel, const Grid& grid, void** parameters);

// Whether the GPU may schedule the kernels of steps captured from now on while the one before each runs, in which they
// then wait for it (cuda/launch.cuh). True unless $MANTISSA_CUDA_OVERLAP is 0; before sm_90 it makes no difference.
void set_overlap(bool on);

[[noreturn]] void fail_parameter(const char* kernel, long long value);

}  // namespace mantissa::cuda_backend
