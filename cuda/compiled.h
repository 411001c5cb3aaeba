// Kernels compiled while the program runs, by NVRTC (cuda/library/nvrtc.cpp).
#pragma once

#include <cstddef>
#include <string>

#include "core/device.h"

namespace mantissa::cuda_backend {

// False in a build without NVRTC.
bool can_compile();

class CompiledKernel;  // on one device; lives as long as the program
// The kernel `name` of `text`, compiled for the device when it is first asked for. Thread-safe. Throws with the
// compiler's message.
const CompiledKernel& compile(const std::string& text, const char* name, Device device);
// One launch on the current stream, with one parameter of so many bytes.
void launch_compiled(const CompiledKernel& kernel, unsigned blocks, unsigned threads, const void* parameter,
                     std::size_t bytes);

}  // namespace mantissa::cuda_backend
