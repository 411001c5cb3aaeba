#include "cuda/launch.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "cuda/runtime.h"

#if !defined(MANTISSA_CUDA_SHIM)
#include <nvtx3/nvToolsExt.h>
#endif

namespace mantissa::cuda_backend {

namespace {

Grid in_a_row(std::int64_t blocks, std::int64_t threads) {
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
}

std::atomic<bool>& overlap() {
  static std::atomic<bool> on = [] {
    const char* text = std::getenv("MANTISSA_CUDA_OVERLAP");
    return !text || std::strcmp(text, "0") != 0;
  }();
  return on;
}

// In a captured step alone: elsewhere the GPU waits for the host. Code for GPUs before sm_90, which the driver of a
// newer one may have translated, does not wait.
bool may_come_early(const void* kernel) {
  if (!records_here()) return false;
  const CaptureRelaxed relaxed;  // it may load the kernel's code
  cudaFuncAttributes code{};
  return cudaFuncGetAttributes(&code, kernel) == cudaSuccess && code.ptxVersion >= 90 && overlap();
}

// A single runtime call, which returns the launch status: <<<>>> would make three, plus a fourth to get the error.
cudaError_t call_launch(const void* kernel, const Grid& grid, void** parameters) {
  const bool early = may_come_early(kernel);
  if (grid.cluster == 1 && !early)
    return cudaLaunchKernel(kernel, grid.blocks, grid.threads, parameters, grid.shared, stream());
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (grid.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {grid.cluster, 1, 1};
  }
  if (early) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  const cudaLaunchConfig_t config{grid.blocks, grid.threads, grid.shared, stream(), attributes, count};
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

}  // namespace

Grid grid_for(std::int64_t n, int each, int threads) {
  const std::int64_t per_block = std::int64_t{each} * threads, blocks = (n + per_block - 1) / per_block;
  check(blocks <= 0x7fffffff, "internal error: ", n, " items do not fit into one launch");
  return in_a_row(blocks, threads);
}
Grid grid_for_rows(std::int64_t rows, std::int64_t length, int most) {
  std::int64_t threads = 32;
  while (threads < most && threads < length) threads *= 2;
  check(rows <= 0x7fffffff, "internal error: ", rows, " rows do not fit into one launch");
  return in_a_row(rows, threads);
}

void enqueue(const char* name, const void* kernel, const Grid& grid, void** parameters) {
#if defined(MANTISSA_CUDA_SHIM)
  const cudaError_t status = call_launch(kernel, grid, parameters);
#else
  nvtxRangePushA(name);
  const cudaError_t status = call_launch(kernel, grid, parameters);
  nvtxRangePop();
#endif
  after_launch(name, status);
}

void set_overlap(bool on) { overlap() = on; }

void fail_parameter(const char* kernel, long long value) {
  fail("internal error: ", kernel, ": ", value, " is too large for a parameter of its kernel");
}

}  // namespace mantissa::cuda_backend
