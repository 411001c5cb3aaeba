// The available hardware in words: for programs that print it (samples/mantissa_info.cpp).
#pragma once

#include <string>
#include <vector>

#include "core/accelerator.h"

namespace mantissa {

std::string compiler_report();   // the compiler that built the library, e.g. "g++ 12.2.0"
std::string processor_report();  // model, and the CPU features that kernels use
// One line per GPU, one for driver and toolkit, one for libraries; or one line with the reason why none can be used.
std::vector<std::string> gpu_report();

namespace cuda_backend {
MANTISSA_ACCELERATOR std::vector<std::string> describe_devices();  // cuda/report.cpp
}

}  // namespace mantissa
