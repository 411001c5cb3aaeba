// The one funnel that kernels are launched through: launch("name", kernel, {blocks, threads}, arguments...).
// It checks the limits, names the launch for profilers, puts it on the current stream and reports a
// refusal. Where .cu files are compiled by a C++ compiler (tests/cuda_shim), it runs the kernel on the CPU.
//
// Rules for kernels, so that both compilers take them: no <<<>>>; dynamic shared memory by
// MANTISSA_SHARED; warp operations with a mask; inline PTX only in cuda/ptx.cuh, beside a CPU twin.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "cuda/check.h"
#include "cuda/runtime.h"

#if defined(MANTISSA_CUDA_SHIM)
#include "tests/cuda_shim/shim.h"
#define MANTISSA_SHARED(type, name) type* name = static_cast<type*>(::cuda_shim::dynamic_shared())
#else
#include <nvtx3/nvToolsExt.h>
// One array for all kernels of a file: they may want it as different types.
extern __shared__ __align__(16) unsigned char mantissa_shared_bytes[];
#define MANTISSA_SHARED(type, name) type* name = reinterpret_cast<type*>(mantissa_shared_bytes)
#endif

namespace mantissa::cuda_backend {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared = 0;  // bytes of dynamic shared memory
};

inline constexpr int block_size = 256;
// Enough blocks of `threads` for n items, `each` per thread. At most 2^31 - 1 blocks; n = 0 gives none.
inline Grid grid_for(std::int64_t n, int each = 1, int threads = block_size) {
  const std::int64_t per_block = std::int64_t{each} * threads, blocks = (n + per_block - 1) / per_block;
  check(blocks <= 0x7fffffff, "internal error: ", n, " items do not fit into one launch");
  Grid g{dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
  if (blocks == 0) g.blocks.x = 0;
  return g;
}
// One block per row, with as many threads (whole warps, at most `most`) as the row can use.
inline Grid grid_for_rows(std::int64_t rows, std::int64_t length, int most = 512) {
  std::int64_t threads = 32;
  while (threads < most && threads < length) threads *= 2;
  check(rows <= 0x7fffffff, "internal error: ", rows, " rows do not fit into one launch");
  Grid g{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads))};
  if (rows == 0) g.blocks.x = 0;
  return g;
}

// Does nothing for a grid without blocks.
template <class... P, class... A> void launch(const char* name, void (*kernel)(P...), const Grid& grid, const A&... arguments) {
  if (grid.blocks.x == 0) return;
#if defined(MANTISSA_CUDA_SHIM)
  (void)cuda_shim::launch(stream(), [=] { kernel(static_cast<P>(arguments)...); }, grid.blocks, grid.threads, grid.shared);
#else
  if (grid.shared > 48 * 1024) {  // beyond what every kernel may have, it must be asked for
    check_status(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(grid.shared)), name);
  }
  nvtxRangePushA(name);
#if defined(__CUDACC__)
  kernel<<<grid.blocks, grid.threads, grid.shared, stream()>>>(static_cast<P>(arguments)...);
#endif
  nvtxRangePop();
#endif
  after_launch(name);
}

// In a kernel: notes that a value is out of range; the host throws it when it next waits.
__device__ inline void note_out_of_range(Note* note, int kind, long long value, long long size, long long position) {
  if (atomicExch(&note->set, 1) != 0) return;  // the first one is enough
  note->kind = kind;
  note->value = value;
  note->size = size;
  note->position = position;
}

}  // namespace mantissa::cuda_backend
