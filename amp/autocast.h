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

#include <optional>
#include <utility>

#include "amp/policies.h"
#include "core/context.h"
#include "core/tensor.h"

namespace mantissa::amp {

struct Disabled {};
inline constexpr Disabled disabled{};

struct AutocastOptions {
  std::optional<Dtype> dtype = {};    // absent: that of the region around, or bf16 on the CPU, f16 on CUDA
  std::optional<Device> device = {};  // one device type; absent: all
  Policies policies = {};             // on top of those of the region around
};

class [[nodiscard]] Autocast {
 public:
  explicit Autocast(Dtype dtype);                 // on every device
  Autocast(Device device, Dtype dtype);           // on one device type
  explicit Autocast(const AutocastOptions& options);
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
template <class F> decltype(auto) autocast(const AutocastOptions& options, F&& body) {
  const Autocast scope(options);
  return std::forward<F>(body)();
}
inline AutocastState capture() { return context().autocast; }
inline bool is_enabled(Device d = cpu) { return context().autocast.enabled_on(d); }

// Used by apply(): replaces x[i] by its cast where the policy asks for one. `casts` holds the casts. With a
// name, the region's policies have the last word.
void cast_inputs(const char* op, CastPolicy policy, std::span<const Tensor*> x, std::span<Tensor> casts);
void cast_inputs(CastPolicy policy, std::span<const Tensor*> x, std::span<Tensor> casts);
// The same operator's result, for amp/explain.h.
void note_result(const Tensor& result);

// A parameter in a lower precision. Made once and kept on the parameter's LeafNode until the
// parameter changes; its gradients flow straight into the parameter's f32 gradient. Optimizers
// refresh it in their update kernel, so a steady training step casts no weight at all.
Tensor shadow(const Tensor& parameter, Dtype dtype);
// Bytes that the shadows of these parameters hold now, and a way to let them go: the next region makes
// them anew. A shadow lives as long as its parameter otherwise.
std::int64_t shadow_bytes(std::span<const Tensor> parameters);
void drop_shadows(std::span<const Tensor> parameters);

// What autocast did in this thread since it started.
struct CastStatistics {
  std::uint64_t casts = 0;   // of tensors that are no parameters
  std::uint64_t misses = 0;  // of parameters: a shadow was made or refreshed
  std::uint64_t hits = 0;    // of parameters: the shadow was up to date
  std::int64_t bytes = 0;    // written by casts and misses
};
CastStatistics cast_statistics();
inline std::uint64_t cast_count() { return cast_statistics().casts + cast_statistics().misses; }

}  // namespace mantissa::amp
