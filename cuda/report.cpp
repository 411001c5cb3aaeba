// Text report of GPUs, driver, toolkit and libraries (core/device_report.h).
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "core/device_link.h"
#include "core/device_report.h"
#include "cuda/check.h"
#include "cuda/cublaslt.h"
#include "cuda/cudnn.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

std::vector<std::string> describe_devices() {
  std::vector<std::string> lines;
  for (int i = 0; i < device_count(); ++i) {
    cudaDeviceProp p;
    check_status(cudaGetDeviceProperties(&p, i), "cudaGetDeviceProperties");
    lines.push_back(concat(std::string(p.name), ", sm_", p.major, p.minor, ", ", p.multiProcessorCount,
                           " multiprocessors, ", static_cast<std::int64_t>(p.totalGlobalMem >> 20), " MiB"));
  }
  int driver = 0, runtime = 0;
  check_status(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check_status(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  lines.push_back(concat("driver for CUDA ", version_text(driver), ", toolkit ", version_text(runtime)));
  const std::string nccl = nccl_version();
  lines.push_back(concat("cuBLASLt ", cublaslt_version(), ", cuDNN ", cudnn_version(), ", NCCL ",
                         nccl.empty() ? "not found" : nccl));
  return lines;
}

DeviceProperties properties_of(Device device) {
  cudaDeviceProp p;
  check_status(cudaGetDeviceProperties(&p, device.index), "cudaGetDeviceProperties");
  std::size_t free = 0, total = 0;
  check_status(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {.name = p.name,
          .total_memory = static_cast<std::int64_t>(total),
          .free_memory = static_cast<std::int64_t>(free),
          .processors = p.multiProcessorCount,
          .capability = 10 * p.major + p.minor};
}

}  // namespace mantissa::cuda_backend
