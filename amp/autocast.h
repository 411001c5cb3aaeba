// Scoped autocast: inside the scope each operator casts its inputs according to its policy (amp/policy.h).
//
//   Tensor loss = amp::autocast(bf16, [&] { return cross_entropy(net(x), y); });
//   amp::Autocast scope(f16);                 // or as a guard, until the end of the block
//   amp::Autocast off(amp::disabled);         // a region in full precision inside another
//   amp::Autocast maybe({.dtype = f16, .enabled = use_amp});
//   amp::Autocast as_torch({.dtype = f16,
//                           .policies = amp::Policies::torch_cuda(),
//                           .cache = amp::CastCache::until_exit});
//
// Regions are thread-local, nestable and exception-safe. A new thread starts outside any region; capture() and
// Autocast(state) transfer one to it. backward() uses the dtypes of the forward pass, inside or outside of a region.
// Semantics follow torch.autocast; f64, integer and bool tensors are never cast. The dtype must be f16, bf16, or f32
// (which makes the region inert).
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "amp/casts.h"
#include "amp/policies.h"
#include "core/context.h"
#include "core/tensor.h"

namespace mantissa::amp {

struct Disabled {};
inline constexpr Disabled disabled{};

struct AutocastOptions {
  std::optional<Dtype> dtype = {};      // default: that of the enclosing region, else bf16 on the CPU, f16 on CUDA
  std::optional<Device> device = {};    // one device type; default: all
  bool enabled = true;                  // false: operators run in the dtypes of their inputs; dtype is ignored
  Policies policies = {};               // added to those of the enclosing region
  std::optional<CastCache> cache = {};  // default: that of the enclosing region, else CastCache::kept
};

class [[nodiscard]] Autocast {
 public:
  explicit Autocast(Dtype dtype);                 // on every device
  Autocast(Device device, Dtype dtype);           // on one device type
  explicit Autocast(const AutocastOptions& options);
  explicit Autocast(Disabled);
  // Applies a captured state, e.g. on another thread. A template, so that a braced list means AutocastOptions.
  template <std::same_as<AutocastState> S> explicit Autocast(const S& state) : before_(context().autocast) {
    context().autocast = state;
  }
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  AutocastState before_;
};

template <class F> decltype(auto) autocast(Dtype dtype, F&& body) {
  const Autocast scope(dtype);
  return std::forward<F>(body)();
}
template <class F> decltype(auto) autocast(const AutocastOptions& options, F&& body) {
  const Autocast scope(options);
  return std::forward<F>(body)();
}
inline AutocastState capture() { return context().autocast; }
inline bool is_enabled(Device d = cpu) { return context().autocast.enabled_on(d); }

// Internal: switches autocast and observers off inside an operator's implementation.
class [[nodiscard]] OutsideAutocast {
 public:
  OutsideAutocast() : before_(context().autocast) {
    context().autocast.enabled[0] = context().autocast.enabled[1] = context().autocast.observed = false;
  }
  ~OutsideAutocast() { context().autocast = before_; }
  OutsideAutocast(const OutsideAutocast&) = delete;
  OutsideAutocast& operator=(const OutsideAutocast&) = delete;

 private:
  AutocastState before_;
};

// Used by apply(): replaces x[i] by its cast where the region's policy for this operator, or else `own`, asks for one.
// The casts are stored in `casts`. With `reads_half` (ops/op.h) f16 and bf16 inputs are not cast to f32; returns
// whether x[0] is such an input.
bool cast_inputs(const char* op, CastPolicy own, std::span<const Tensor*> x, std::span<Tensor> casts,
                 bool reads_half = false);
// Passes observers the result of the operator that cast_inputs announced.
void note_result(const Tensor& result);

}  // namespace mantissa::amp
