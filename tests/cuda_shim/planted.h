// For tests that plant a mistake in a kernel: what the shim says of it.
#pragma once

#include <string>

#include "cuda/launch.cuh"
#include "tests/testing.h"

namespace mantissa::cuda_backend {

// What a launch and the device say of a kernel; the device is then as good as new.
template <class F> std::string message_of_run(F&& run) {
  std::string message = test::message_of(run);
  if (const cudaError_t e = cudaPeekAtLastError(); e != cudaSuccess)
    message += std::string(cudaGetErrorName(e)) + ": " + cudaGetErrorString(e);
  cuda_shim::forget_errors();
  return message;
}
template <class... P, class... A>
std::string message_of_launch(const Grid& grid, void (*kernel)(P...), const A&... arguments) {
  return message_of_run([&] { launch("planted", kernel, grid, arguments...); });
}

}  // namespace mantissa::cuda_backend
