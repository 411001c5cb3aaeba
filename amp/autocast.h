// Scoped autocast: inside the scope each operator casts its inputs as its policy says (amp/policy.h).
//
//   Tensor loss = amp::autocast(bf16, [&] { return cross_entropy(net(x), y); });
//   amp::Autocast scope(f16);                 // or as a guard, until the end of the block
//   amp::Autocast off(amp::disabled);         // a region in full precision inside another
//
// Thread-local, nests, and survives exceptions. Call backward outside: it runs in the dtypes of the
// forward wherever it is called. Semantics follow torch.autocast; double, integer and bool tensors
// are never cast. The dtype must be f16, bf16, or f32 (which makes the region inert).
#pragma once

#include <utility>

#include "amp/policy.h"
#include "core/context.h"
#include "core/tensor.h"

namespace mantissa::amp {

struct Disabled {};
inline constexpr Disabled disabled{};

class [[nodiscard]] Autocast {
 public:
  explicit Autocast(Dtype dtype);                 // on every device
  Autocast(Device device, Dtype dtype);           // on one device type
  explicit Autocast(Disabled);
  explicit Autocast(const AutocastState& state);  // apply a captured state, e.g. on another thread
  ~Autocast() { context().autocast = before_; }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  AutocastState before_;
};

template <class F> decltype(auto) autocast(Dtype dtype, F&& body) {
  const Autocast scope(dtype);
  return std::forward<F>(body)();
}
inline AutocastState capture() { return context().autocast; }
inline bool is_enabled(Device d = cpu) { return context().autocast.enabled_on(d); }

// Used by apply(): replaces x[i] by its cast where the policy asks for one. `casts` holds the casts.
void cast_inputs(CastPolicy policy, std::span<const Tensor*> x, std::span<Tensor> casts);

// A parameter in a lower precision. Made once and kept on the parameter's LeafNode until the
// parameter changes; its gradients flow straight into the parameter's f32 gradient. Optimizers
// refresh it in their update kernel, so a steady training step casts no weight at all.
Tensor shadow(const Tensor& parameter, Dtype dtype);
// How many casts and shadow refreshes ran in this thread since the start: for tests.
std::uint64_t cast_count();

}  // namespace mantissa::amp
