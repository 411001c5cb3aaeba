// Scoped autocast: inside the scope each operator casts its inputs as its policy says (amp/policy.h).
//
//   Tensor loss = amp::autocast(bf16, [&] { return cross_entropy(net(x), y); });
//   amp::Autocast scope(f16);                 // or as a guard, until the end of the block
//   amp::Autocast off(amp::disabled);         // a region in full precision inside another
//   amp::Autocast maybe({.dtype = f16, .enabled = use_amp});
//   amp::Autocast as_torch({.dtype = f16,
//                           .policies = amp::Policies::torch_cuda(),
//                           .cache = amp::CastCache::until_exit});
//
// Thread-local, nests, and survives exceptions; a thread starts outside, and enters the region of another with
// capture() and Autocast(state). Call backward outside: it runs in the dtypes of the forward wherever it is called.
// Semantics follow torch.autocast; double, integer and bool tensors are never cast. The dtype must be f16, bf16,
// or f32 (which makes the region inert).
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
  std::optional<Dtype> dtype = {};      // absent: that of the region around, or bf16 on the CPU, f16 on CUDA
  std::optional<Device> device = {};    // one device type; absent: all
  bool enabled = true;                  // false: operators run in the dtypes that come in, whatever dtype says
  Policies policies = {};               // on top of those of the region around
  std::optional<CastCache> cache = {};  // absent: that of the region around; CastCache::kept outside
};

class [[nodiscard]] Autocast {
 public:
  explicit Autocast(Dtype dtype);                 // on every device
  Autocast(Device device, Dtype dtype);           // on one device type
  explicit Autocast(const AutocastOptions& options);
  explicit Autocast(Disabled);
  // Applies a captured state, e.g. on another thread. A template, so that braces mean options.
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

// Of the machinery: the inside of an operator, which no region and no observer concerns any more.
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

// Used by apply(): replaces x[i] by its cast where the policy asks for one, which is the region's or else `own`.
// `casts` holds the casts. With `reads_halves` (ops/op.h) casts of halves to f32 are left to the kernel; true when
// x[0] would have been one.
bool cast_inputs(const char* op, CastPolicy own, std::span<const Tensor*> x, std::span<Tensor> casts,
                 bool reads_halves = false);
// The same operator's result, for observers.
void note_result(const Tensor& result);

}  // namespace mantissa::amp
