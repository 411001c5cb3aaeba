// The value of a small struct in device memory as the host last saw it: for reports, which may come
// late, and never for a decision of the step that runs. Nothing here waits for the device.
#pragma once

#include <cstring>

#include "core/tensor.h"

namespace mantissa::amp {

template <class T> class HostView {
 public:
  // Asks for the present bytes of `t`. The CPU has done its work when a kernel returns, so they are here.
  void request(const Tensor& t) {
    check(t.device().is_cpu(), "has no cuda kernel in this build");
    std::memcpy(&value_, t.raw_data(), sizeof(T));
  }
  // What has arrived of the requests so far.
  const T& latest() const { return value_; }

 private:
  T value_{};
};

}  // namespace mantissa::amp
