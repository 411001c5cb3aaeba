#include "core/device_report.h"

#include <fstream>
#include <thread>

namespace mantissa {

std::string compiler_report() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__;
#else
  return std::string("g++ ") + __VERSION__;
#endif
}

static std::string processor_model() {
  std::string model = "unknown model";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && line.size() < 4096;) {
    const auto colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    model = line.substr(colon + 2);
    break;
  }
  return model;
}

std::string processor_report() {
  std::string model = processor_model();
#if defined(__x86_64__)
  __builtin_cpu_init();
  model += ";";
#define MANTISSA_NAME_FEATURE(feature) \
  if (__builtin_cpu_supports(feature)) model += " " feature;
  MANTISSA_NAME_FEATURE("sse4.2")
  MANTISSA_NAME_FEATURE("avx")
  MANTISSA_NAME_FEATURE("avx2")
  MANTISSA_NAME_FEATURE("fma")
  MANTISSA_NAME_FEATURE("avx512f")
  MANTISSA_NAME_FEATURE("avx512vnni")
  MANTISSA_NAME_FEATURE("avx512bf16")
#undef MANTISSA_NAME_FEATURE
#endif
  return model;
}

DeviceProperties device_properties(Device device) {
  if (!device.is_cpu()) return cuda_backend::prepare(&cuda_backend::properties_of, device)(device);
  DeviceProperties p{.name = processor_model(), .total_memory = 0, .free_memory = 0,
                     .processors = static_cast<int>(std::thread::hardware_concurrency())};
  std::ifstream in("/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kib = 0; in >> name >> kib; std::getline(in, unit)) {
    if (name == "MemTotal:") p.total_memory = kib << 10;
    if (name == "MemAvailable:") p.free_memory = kib << 10;
  }
  return p;
}

std::vector<std::string> gpu_report() {
  using namespace cuda_backend;
  if (!has_cuda_backend()) return {"none: this build has no CUDA backend (MANTISSA_CUDA)"};
  if (device_count() == 0) return {std::string("none: ") + why_no_device()};
  return describe_devices();
}

}  // namespace mantissa
