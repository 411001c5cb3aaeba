// The devices of a test that covers both backends: the CPU and, if available (or emulated by the shim), a GPU.
#pragma once

#include <vector>

#include "core/accelerator.h"
#include "tests/testing.h"

namespace mantissa::test {

inline std::vector<Device> devices() {
  if (cuda_is_available()) return {cpu, cuda};
  WARN("no GPU and no shim: only the CPU is tested");
  return {cpu};
}

}  // namespace mantissa::test
