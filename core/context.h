// The current thread's modes: gradient recording, autocast, anomaly mode. One thread-local struct, read once per
// operator. Nothing here is shared between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/device.h"
#include "core/dtype.h"

namespace mantissa {

namespace amp {
struct Overlay;       // policies that override the operators' own: amp/policies.h
struct PolicyModule;  // the module being run, if an overlay names modules: amp/modules.h
enum class CastCache : std::uint8_t {  // low-precision copies of parameters made in a region
  kept,        // kept with the parameter and updated by optimizers: a steady training step casts no weight
  until_exit,  // dropped when the thread's outermost region ends, as in PyTorch
  off,         // not cached: each use casts anew
};
}  // namespace amp

// The thread's mixed-precision state, per device type. A value: it can be captured, carried to another thread and
// applied there (amp/autocast.h).
struct AutocastState {
  bool enabled[2] = {false, false};
  bool observed = false;  // an observer sees every operator, also outside regions (amp/observe.h)
  bool traced = false;    // a model is being exported: operators are recorded (ops/onnx_trace.h)
  amp::CastCache cache = amp::CastCache::kept;
  Dtype dtype[2] = {Dtype::bf16, Dtype::f16};  // defaults: bf16 on the CPU, f16 on CUDA
  std::uint16_t depth = 0;                     // nesting depth of regions
  const amp::Overlay* overlay = nullptr;
  const amp::PolicyModule* module = nullptr;

  bool enabled_on(Device d) const { return enabled[static_cast<int>(d.type)]; }
  Dtype dtype_on(Device d) const { return dtype[static_cast<int>(d.type)]; }
  // Whether an operator must do more than run. One load and one test: all that autocast costs outside regions.
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

// Operators in its scope are not recorded: their results are constants of an exported model.
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
