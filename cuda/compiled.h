// Kernels compiled at run time by NVRTC (cuda/library/nvrtc.cpp).
#pragma once

#include <cstddef>
#include <string>

#include "core/device.h"

namespace mantissa::cuda_backend {

// False in a build without NVRTC.
bool can_compile();

class CompiledKernel;  // on one device; lives until the process ends
// The kernel `name` of the source `text`, compiled for the device on first use. Thread-safe. Throws with the compiler's
// message.
const CompiledKernel& compile(const std::string& text, const char* name, Device device);
// One launch on the current stream, with one parameter of the given number of bytes.
void launch_compiled(const CompiledKernel& kernel, unsigned blocks, unsigned threads, const void* parameter,
                     std::size_t bytes);

}  // namespace mantissa::cuda_backend
