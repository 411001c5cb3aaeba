// All kernels are launched through this function: launch("name", kernel, {blocks, threads}, arguments...). It checks
// limits, names the launch for profilers, enqueues it on the current stream and reports failures. If .cu files are
// compiled by a C++ compiler (tests/cuda_shim), it runs the kernel on the CPU.
//
// Rules for kernels, so that both compilers accept them: no <<<>>>; dynamic shared memory by MANTISSA_SHARED; warp
// operations with a mask; inline PTX only in cuda/ptx.cuh, with a CPU counterpart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "cuda/check.h"
#include "cuda/runtime.h"

#if defined(MANTISSA_CUDA_SHIM)
#include "tests/cuda_shim/shim.h"
#define MANTISSA_SHARED(type, name) type* name = static_cast<type*>(::cuda_shim::dynamic_shared())
#else
#include <nvtx3/nvToolsExt.h>
// One array for all kernels of a file, which may use it with different types.
extern __shared__ __align__(16) unsigned char mantissa_shared_bytes[];
#define MANTISSA_SHARED(type, name) type* name = reinterpret_cast<type*>(mantissa_shared_bytes)
#endif

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

// Total bytes of a kernel's parameters, each with its own alignment. Every driver supports 4096; more (32,764 since
// CUDA 12.1 and sm_70) would require such a new driver.
template <class... P> constexpr std::size_t parameter_bytes() {
  std::size_t n = 0;
  ((n = (n + alignof(P) - 1) / alignof(P) * alignof(P) + sizeof(P)), ...);
  return n;
}

// Converts an argument to the parameter type. Sizes are 64-bit on the host, but int in some kernels.
template <class P, class A> P fitted(const char* name, const A& a) {
  if constexpr (std::is_integral_v<P> && std::is_integral_v<A> && !std::is_same_v<P, bool> &&
                !std::is_same_v<A, bool>) {
    check(std::in_range<P>(a), "internal error: ", name, ": ", a, " is too large for a parameter of its kernel");
  }
  return static_cast<P>(a);
}

// One argument as the kernel declares it: unchanged, or converted.
template <class P, class A> struct Parameter {
  P value;
  Parameter(const char* name, const A& a) : value(fitted<P>(name, a)) {}
  void* address() { return &value; }
};
template <class P> struct Parameter<P, P> {
  const P& value;
  Parameter(const char*, const P& a) : value(a) {}
  void* address() { return const_cast<P*>(&value); }
};

// A single runtime call, which returns the launch status: <<<>>> would make three, plus a fourth to get the error.
template <class... P> cudaError_t call_launch(const void* kernel, const Grid& grid, P... parameters) {
  void* addresses[] = {parameters.address()..., nullptr};
  if (grid.cluster > 1) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {grid.cluster, 1, 1};
    const cudaLaunchConfig_t config{grid.blocks, grid.threads, grid.shared, stream(), &cluster, 1};
    return cudaLaunchKernelExC(&config, kernel, addresses);
  }
  return cudaLaunchKernel(kernel, grid.blocks, grid.threads, addresses, grid.shared, stream());
}

// Does nothing for an empty grid.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), const Grid& grid, const A&... arguments) {
  static_assert(parameter_bytes<P...>() <= 4096, "a kernel's parameters must fit into 4 KiB");
  if (grid.blocks.x == 0) return;
  const void* const function = reinterpret_cast<const void*>(kernel);
  if (grid.shared > shared_of_every_kernel) allow_shared(function, grid.shared, name);
#if defined(MANTISSA_CUDA_SHIM)
  if (!cuda_shim::null_device) {
    const auto run = [function, kernel, &grid](const P&... values) {
      const cuda_shim::Argument list[] = {{&values, sizeof(P), std::is_pointer_v<P>}..., {}};
      return cuda_shim::launch(
          stream(), function, list, [=] { kernel(values...); },
          {grid.blocks, grid.threads, grid.shared, grid.cluster});
    };
    return after_launch(name, run(fitted<P>(name, arguments)...));
  }
  const cudaError_t status = call_launch(function, grid, Parameter<std::remove_const_t<P>, A>(name, arguments)...);
#else
  nvtxRangePushA(name);
  const cudaError_t status = call_launch(function, grid, Parameter<std::remove_const_t<P>, A>(name, arguments)...);
  nvtxRangePop();
#endif
  after_launch(name, status);
}

// In a kernel: records that a value is out of range; the host throws the error when it next waits.
__device__ inline void note_out_of_range(Note* note, int kind, long long value, long long size, long long position) {
  if (atomicExch(&note->set, 1) != 0) return;  // the first one is enough
  note->kind = kind;
  note->value = value;
  note->size = size;
  note->position = position;
}

}  // namespace mantissa::cuda_backend
