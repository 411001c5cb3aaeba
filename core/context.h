// What the current thread has switched on: gradient recording, autocast, anomaly mode. One
// thread-local struct, read once per operator. Nothing here is shared between threads.
#pragma once

#include "core/device.h"
#include "core/dtype.h"

namespace mantissa {

namespace amp { struct Overlay; }  // policies other than the operators' own: amp/policies.h

// The mixed-precision region a thread is in, per device type. A value: capture it, carry it to
// another thread, apply it there (amp/autocast.h).
struct AutocastState {
  bool enabled[2] = {false, false};
  Dtype dtype[2] = {Dtype::bf16, Dtype::f16};  // defaults: bf16 on the CPU, f16 on CUDA
  const amp::Overlay* overlay = nullptr;

  bool enabled_on(Device d) const { return enabled[static_cast<int>(d.type)]; }
  Dtype dtype_on(Device d) const { return dtype[static_cast<int>(d.type)]; }
  bool any() const { return enabled[0] || enabled[1]; }
  friend bool operator==(const AutocastState&, const AutocastState&) = default;
};

struct Context {
  bool grad_enabled = true;
  bool create_graph = false;  // inside a backward pass that is itself recorded
  bool anomaly = false;       // check every result for NaN (autograd/anomaly.h)
  AutocastState autocast;
};

inline constinit thread_local Context thread_context;
inline Context& context() { return thread_context; }

}  // namespace mantissa
