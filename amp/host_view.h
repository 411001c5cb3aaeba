// The last value of a small struct in device memory that has reached the host: for reports, which may lag, never for
// decisions of the current step. Nothing here waits for the device.
#pragma once

#include <cstring>
#include <memory>

#include "core/accelerator.h"
#include "core/tensor.h"

namespace mantissa::amp {

template <class T> class HostView {
 public:
  HostView() = default;
  HostView(const HostView& other) : value_(other.latest()) {}  // a copy makes its own requests
  HostView& operator=(const HostView& other) {
    value_ = other.latest();
    mirror_.reset();
    return *this;
  }
  // Requests the current bytes of `t`. On the CPU kernels are synchronous, so they are available at once.
  void request(const Tensor& t) {
    if (t.device().is_cpu()) {
      std::memcpy(&value_, t.raw_data(), sizeof(T));
      return;
    }
    if (!mirror_) {
      mirror_.reset(cuda_backend::make_mirror(sizeof(T)),
                    [](cuda_backend::Mirror* m) { cuda_backend::destroy_mirror(m); });
    }
    cuda_backend::activate(t.device());
    cuda_backend::request(mirror_.get(), t.view().data);
  }
  // The latest value that has arrived.
  const T& latest() const {
    if (mirror_) {
      if (const void* arrived = cuda_backend::latest(mirror_.get())) std::memcpy(&value_, arrived, sizeof(T));
    }
    return value_;
  }

 private:
  mutable T value_{};
  std::shared_ptr<cuda_backend::Mirror> mirror_;
};

}  // namespace mantissa::amp
