// Runs the PTX that nvcc made of a kernel, instead of what the C++ compiler made of it: one thread at a time, in the
// fibers of fibers.cpp, with the counterparts of hopper.h and cuda/ptx.cuh for what a warp does together. So the text
// of inline PTX, nvcc's own code and everything under __CUDA_ARCH__ are tested without a GPU; ptxas, which makes
// machine code of PTX, is not. $MANTISSA_SHIM_PTX names a folder with one FILE.cu.ptx for each FILE.cu (scripts/ptx.sh
// writes it); without it kernels run as compiled by the C++ compiler. Source: "PTX ISA", NVIDIA.
#pragma once

#include <cfenv>
#include <functional>
#include <string>
#include <string_view>

#include "tests/cuda_shim/shim.h"

namespace cuda_shim::ptx {

struct Thread {
  std::function<void()> run;  // empty: PTX is not asked for, or the kernel is not one of the folder's
  std::string_view name;      // nvcc's
  std::size_t shared = 0;     // bytes of the kernel's static shared memory, which lies before the dynamic
};
bool is_wanted();
// `arguments` end with an empty one; they are copied.
Thread thread_of(const Kernel& kernel, const Argument* arguments);
// Of a kernel in this text, which is kept.
Thread thread_of(const std::string& text, std::string_view kernel, const Argument* arguments);

// While one lives, this thread computes with denormal numbers, as a GPU does; Mantissa's threads flush them to zero.
class Denormals {
 public:
  Denormals() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~Denormals() { std::fesetenv(&before_); }
  Denormals(const Denormals&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace cuda_shim::ptx
