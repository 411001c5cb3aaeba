// The available hardware in words and numbers: for programs that print it (samples/mantissa_info.cpp), or size
// themselves by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/accelerator.h"

namespace mantissa {

std::string compiler_report();   // the compiler that built the library, e.g. "g++ 12.2.0"
std::string processor_report();  // model, and the CPU features that kernels use
// One line per GPU, one for driver and toolkit, one for libraries; or one line with the reason why none can be used.
std::vector<std::string> gpu_report();

struct DeviceProperties {
  std::string name;           // "NVIDIA H200"; of the CPU its model
  std::int64_t total_memory;  // bytes
  std::int64_t free_memory;   // bytes that no process uses now (torch.cuda.mem_get_info); of the CPU what is available
  int processors;             // multiprocessors of a GPU, threads that the CPU runs at once
  int capability = 0;         // of a GPU: 90 for sm_90
};
DeviceProperties device_properties(Device device = default_device());

namespace cuda_backend {
MANTISSA_ACCELERATOR DeviceProperties properties_of(Device device);  // cuda/report.cpp
MANTISSA_ACCELERATOR std::vector<std::string> describe_devices();  // cuda/report.cpp
}

}  // namespace mantissa
