// The run-time compiler, usable without a device: tests/nvrtc/nvrtc_test.cpp calls it on machines that have none.
#pragma once

#include <string>
#include <vector>

namespace mantissa::cuda_backend {

// Compiles for compute capability `architecture`, such as 90. The source includes only headers of this project, which
// are embedded in the library. Throws with the compiler's message.
std::vector<char> compile_text(const std::string& text, int architecture);
// The same before ptxas makes machine code of it, as text: the CPU shim executes that (tests/cuda_shim/ptx.h).
std::string compile_to_ptx(const std::string& text, int architecture);

}  // namespace mantissa::cuda_backend
