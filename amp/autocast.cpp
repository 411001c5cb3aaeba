#include "amp/autocast.h"

#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "core/ops.h"

namespace mantissa::amp {
namespace {

thread_local std::uint64_t casts_made = 0;

void check_dtype(Dtype d) {
  check(is_half(d) || d == f32, "autocast: the dtype must be f16, bf16 or f32, got ", d);
}
void set(DeviceType type, Dtype dtype) {
  AutocastState& s = context().autocast;
  s.enabled[static_cast<int>(type)] = dtype != f32;
  if (dtype != f32) s.dtype[static_cast<int>(type)] = dtype;
}

Tensor cast_one(const Tensor& x, Dtype to) {
  const autograd::Node* node = x.impl()->node.get();
  if (node && node->is_leaf() && x.dtype() == f32 && is_half(to)) return shadow(x, to);
  ++casts_made;
  return cast(x, to);
}

}  // namespace

Autocast::Autocast(Dtype dtype) : before_(context().autocast) {
  check_dtype(dtype);
  set(DeviceType::cpu, dtype);
  set(DeviceType::cuda, dtype);
}
Autocast::Autocast(Device device, Dtype dtype) : before_(context().autocast) {
  check_dtype(dtype);
  set(device.type, dtype);
}
Autocast::Autocast(Disabled) : before_(context().autocast) {
  context().autocast.enabled[0] = context().autocast.enabled[1] = false;
}
Autocast::Autocast(const AutocastState& state) : before_(context().autocast) { context().autocast = state; }

void cast_inputs(CastPolicy policy, std::span<const Tensor*> x, std::span<Tensor> casts) {
  if (policy == CastPolicy::keep) return;
  const AutocastState& state = context().autocast;
  auto eligible = [&](const Tensor& t) {
    return t.defined() && t.is_floating() && t.dtype() != f64 && !t.is_weak_scalar() && state.enabled_on(t.device());
  };
  Dtype target = f32;
  if (policy == CastPolicy::promote) {
    bool any = false;
    for (const Tensor* t : x) {
      if (!eligible(*t)) continue;
      check(!any || target == t->dtype() || !is_half(target) || !is_half(t->dtype()),
            "inputs are ", target, " and ", t->dtype(), ": autocast does not mix the two half precisions; cast one with to()");
      target = any ? promote(target, t->dtype()) : t->dtype();
      any = true;
    }
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!eligible(*x[i])) continue;
    const Dtype to = policy == CastPolicy::lower ? state.dtype_on(x[i]->device()) : target;
    if (x[i]->dtype() == to) continue;
    casts[i] = cast_one(*x[i], to);
    x[i] = &casts[i];
  }
}

Tensor shadow(const Tensor& parameter, Dtype dtype) {
  auto* leaf = static_cast<autograd::LeafNode*>(parameter.impl()->node.get());
  const std::lock_guard lock(leaf->mutex);
  const std::uint32_t version = parameter.storage()->version();
  if (!leaf->shadow.defined() || leaf->shadow.dtype() != dtype || leaf->shadow_version != version) {
    const NoGrad no_grad;
    Tensor fresh = cast(parameter.detach(), dtype);
    fresh.impl()->node = {};
    leaf->shadow = fresh;
    leaf->shadow_version = version;
    ++casts_made;
  }
  // The cached tensor carries no node (the LeafNode would own itself); each use gets a handle that does.
  Tensor use = leaf->shadow.detach();
  use.impl()->node = parameter.impl()->node;
  return use;
}

std::uint64_t cast_count() { return casts_made; }

}  // namespace mantissa::amp
