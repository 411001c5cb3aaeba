// The value of a small struct in device memory as the host last saw it: for reports, which may come
// late, and never for a decision of the step that runs. Nothing here waits for the device.
#pragma once

#include <cstring>
#include <memory>

#include "core/accelerator.h"
#include "core/tensor.h"

namespace mantissa::amp {

template <class T> class HostView {
 public:
  HostView() = default;
  HostView(const HostView& other) : value_(other.latest()) {}  // a copy asks for itself
  HostView& operator=(const HostView& other) {
    value_ = other.latest();
    mirror_.reset();
    return *this;
  }
  // Asks for the present bytes of `t`. The CPU has done its work when a kernel returns, so they are here at once.
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
  // What has arrived of the requests so far.
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
