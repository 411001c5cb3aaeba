// The devices of a test that covers both backends: the CPU and, if available (or emulated by the shim), a GPU.
#pragma once

#include <cstddef>
#include <vector>

#include "core/accelerator.h"
#include "tests/testing.h"

// What tests of both the shim and a GPU ask of the shim (tests/cuda_shim/shim.h). Such a test is compiled once and
// linked twice; in the program for a GPU these are null.
namespace cuda_shim {
[[gnu::weak]] void set_null_device(bool on);
[[gnu::weak]] void set_shared_limit(std::size_t bytes);
}  // namespace cuda_shim

namespace mantissa::test {

// On the shim kernels are chosen by rule; on a GPU the tuner may take another for one of two equal problems.
inline bool on_shim() { return cuda_shim::set_null_device != nullptr; }

inline std::vector<Device> devices() {
  if (cuda_is_available()) return {cpu, cuda};
  WARN("no GPU and no shim: only the CPU is tested");
  return {cpu};
}

}  // namespace mantissa::test
