// Runs the PTX that nvcc made of a kernel, instead of what the C++ compiler made of it: one thread at a time, in the
// fibers of fibers.cpp, with the counterparts of hopper.h and cuda/ptx.cuh for what a warp does together. So the text
// of inline PTX, nvcc's own code and everything under __CUDA_ARCH__ are tested without a GPU; ptxas, which makes
// machine code of PTX, is not. $MANTISSA_SHIM_PTX names a folder of PTX files (ninja mantissa_ptx writes FILE.ptx
// for each FILE.cu: cmake/cuda.cmake); without it kernels run as compiled by the C++ compiler. Source: "PTX ISA",
// NVIDIA.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tests/cuda_shim/shim.h"

namespace cuda_shim::ptx {

struct Thread {
  std::function<void()> run;     // empty: PTX is not asked for, or the kernel is not one of the folder's
  std::string_view name;         // nvcc's
  std::size_t most_threads = 0;  // of a block, by __launch_bounds__; 0: as many as a GPU takes
  std::size_t shared = 0;        // bytes of the kernel's static shared memory, which lies before the dynamic
  bool waits_first = true;       // it executes griddepcontrol.wait, and accesses no global memory before
};
bool is_wanted();
// `arguments` end with an empty one; they are copied.
Thread thread_of(const Kernel& kernel, const Argument* arguments);
// Of a kernel in this text, which is kept.
Thread thread_of(const std::string& text, std::string_view kernel, const Argument* arguments);

// Runs a grid of its threads, with denormal numbers, which a GPU keeps and Mantissa's threads flush to zero.
// `shape` is the launch's own.
void run_grid(const Kernel& kernel, const Thread& thread, Shape shape);

}  // namespace cuda_shim::ptx

namespace cuda_shim {
// As launch of shim.h, with the PTX of a kernel that is not one of the folder's.
cudaError_t launch(cudaStream_t stream, const void* kernel, const Argument* arguments, std::function<void()> thread,
                   const Shape& shape, ptx::Thread from_ptx);
}  // namespace cuda_shim
