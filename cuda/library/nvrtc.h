// The run-time compiler, without a device: tests/nvrtc/nvrtc_test.cpp calls it on machines that have none.
#pragma once

#include <string>
#include <vector>

namespace mantissa::cuda_backend {

// Machine code for compute capability `architecture`, such as 90. The text includes headers of this project alone: they
// are part of the library. Throws with the compiler's message.
std::vector<char> compile_text(const std::string& text, int architecture);

}  // namespace mantissa::cuda_backend
