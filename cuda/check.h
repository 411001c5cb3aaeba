// Status checks of the CUDA runtime. After a sticky error (an illegal address, a failed launch) the process can no
// longer use its GPU: the first report says so, and every later call on the device fails.
#pragma once

#include <cuda_runtime.h>

#include "core/error.h"

namespace mantissa::cuda_backend {

[[noreturn]] void fail_status(cudaError_t status, const char* what);
inline void check_status(cudaError_t status, const char* what) {
  if (status != cudaSuccess) [[unlikely]] fail_status(status, what);
}

}  // namespace mantissa::cuda_backend
