// What the current thread has switched on: gradient recording, autocast, anomaly mode. One
// thread-local struct, read once per operator. Nothing here is shared between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/device.h"
#include "core/dtype.h"

namespace mantissa {

namespace amp {
struct Overlay;       // policies other than the operators' own: amp/policies.h
struct PolicyModule;  // the module that runs, when an overlay names modules: amp/modules.h
enum class CastCache : std::uint8_t {  // the low-precision copies of parameters that a region makes
  kept,        // stay with the parameter, and optimizers rewrite them: a steady training step casts no weight
  until_exit,  // are dropped when the outermost region of the thread ends, as PyTorch does
  off,         // each use makes its own
};
}  // namespace amp

// The mixed-precision region a thread is in, per device type. A value: capture it, carry it to
// another thread, apply it there (amp/autocast.h).
struct AutocastState {
  bool enabled[2] = {false, false};
  bool observed = false;  // somebody looks at every operator, also outside regions (amp/observe.h)
  bool traced = false;    // a net is being exported: operators are written down (ops/onnx_trace.h)
  amp::CastCache cache = amp::CastCache::kept;
  Dtype dtype[2] = {Dtype::bf16, Dtype::f16};  // defaults: bf16 on the CPU, f16 on CUDA
  std::uint16_t depth = 0;                     // regions around
  const amp::Overlay* overlay = nullptr;
  const amp::PolicyModule* module = nullptr;

  bool enabled_on(Device d) const { return enabled[static_cast<int>(d.type)]; }
  Dtype dtype_on(Device d) const { return dtype[static_cast<int>(d.type)]; }
  // Whether an operator must look further. One load and one test: all that autocast costs outside regions.
  bool any() const {
    static_assert(offsetof(AutocastState, enabled) == 0 && offsetof(AutocastState, observed) == 2 &&
                  offsetof(AutocastState, traced) == 3);
    std::uint32_t flags;
    std::memcpy(&flags, this, sizeof flags);
    return flags != 0;
  }
  friend bool operator==(const AutocastState&, const AutocastState&) = default;
};

struct Context {
  bool grad_enabled = true;
  bool create_graph = false;  // inside a backward pass that is itself recorded
  bool anomaly = false;       // check every result for NaN (autograd/anomaly.h)
  bool inference = false;     // nothing is recorded, whatever EnableGrad says (autograd/grad_mode.h)
  AutocastState autocast;
};

inline constinit thread_local Context thread_context;
inline Context& context() { return thread_context; }

// Operators in its scope are not written down: what they make is a constant of a traced net.
class [[nodiscard]] Untraced {
 public:
  Untraced() : before_(context().autocast.traced) { context().autocast.traced = false; }
  ~Untraced() { context().autocast.traced = before_; }
  Untraced(const Untraced&) = delete;
  Untraced& operator=(const Untraced&) = delete;

 private:
  bool before_;
};

}  // namespace mantissa
