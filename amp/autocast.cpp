#include "amp/autocast.h"

#include "amp/explain.h"
#include "amp/frozen.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "core/ops.h"

namespace mantissa::amp {
namespace {

thread_local CastStatistics statistics;

void check_dtype(Dtype d) {
  check(is_half(d) || d == f32, "autocast: the dtype must be f16, bf16 or f32, got ", d);
}
void set(DeviceType type, Dtype dtype) {
  AutocastState& s = context().autocast;
  s.enabled[static_cast<int>(type)] = dtype != f32;
  if (dtype != f32) s.dtype[static_cast<int>(type)] = dtype;
}

autograd::LeafNode* leaf_of(const Tensor& x) {
  autograd::Node* node = x.impl()->node.get();
  return node && node->is_leaf() ? static_cast<autograd::LeafNode*>(node) : nullptr;
}

Tensor cast_one(const Tensor& x, Dtype to) {
  if (leaf_of(x) && x.dtype() == f32 && is_half(to)) return shadow(x, to);
  if (!x.requires_grad()) {
    bool made = false;
    Tensor y = frozen_cast(x, to, made);
    if (y.defined()) {
      ++(made ? statistics.misses : statistics.hits);
      if (made) statistics.bytes += y.nbytes();
      return y;
    }
  }
  const Autocast off(disabled);  // a cast is no operator of the region
  Tensor y = cast(x, to);
  ++statistics.casts;
  statistics.bytes += y.nbytes();
  return y;
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
Autocast::Autocast(const AutocastOptions& options) : before_(context().autocast) {
  if (options.dtype) check_dtype(*options.dtype);
  for (DeviceType type : {DeviceType::cpu, DeviceType::cuda}) {
    if (!options.device || options.device->type == type) set(type, options.dtype.value_or(before_.dtype[static_cast<int>(type)]));
  }
  context().autocast.overlay = overlay_on(before_.overlay, options.policies);
}
Autocast::Autocast(Disabled) : before_(context().autocast) {
  context().autocast.enabled[0] = context().autocast.enabled[1] = false;
}
Autocast::Autocast(const AutocastState& state) : before_(context().autocast) { context().autocast = state; }

void cast_inputs(const char* op, CastPolicy own, std::span<const Tensor*> x, std::span<Tensor> casts) {
  const CastPolicy* other = find_policy(context().autocast.overlay, op);
  const CastPolicy policy = other ? *other : own;
  if (Explaining::active()) [[unlikely]] Explaining::begin(op, policy, !other, x);
  cast_inputs(policy, x, casts);
}

void note_result(const Tensor& result) {
  if (Explaining::active()) [[unlikely]] Explaining::end(result);
}

void cast_inputs(CastPolicy policy, std::span<const Tensor*> x, std::span<Tensor> casts) {
  if (policy == CastPolicy::keep || policy == CastPolicy::f32_inside) return;
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
  autograd::LeafNode* leaf = leaf_of(parameter);
  const std::lock_guard lock(leaf->mutex);
  const std::uint32_t version = parameter.storage()->version();
  if (!leaf->shadow.defined() || leaf->shadow.dtype() != dtype || leaf->shadow_version != version) {
    const NoGrad no_grad;
    const Autocast off(disabled);
    Tensor fresh = cast(parameter.detach(), dtype);
    fresh.impl()->node = {};
    leaf->shadow = fresh;
    leaf->shadow_version = version;
    ++statistics.misses;
    statistics.bytes += fresh.nbytes();
  } else {
    ++statistics.hits;
  }
  // The cached tensor carries no node (the LeafNode would own itself); each use gets a handle that does.
  Tensor use = leaf->shadow.detach();
  use.impl()->node = parameter.impl()->node;
  return use;
}

std::int64_t shadow_bytes(std::span<const Tensor> parameters) {
  std::int64_t bytes = 0;
  for (const Tensor& p : parameters) {
    autograd::LeafNode* leaf = p.defined() ? leaf_of(p) : nullptr;
    if (!leaf) continue;
    const std::lock_guard lock(leaf->mutex);
    if (leaf->shadow.defined()) bytes += leaf->shadow.nbytes();
  }
  return bytes;
}

void drop_shadows(std::span<const Tensor> parameters) {
  for (const Tensor& p : parameters) {
    autograd::LeafNode* leaf = p.defined() ? leaf_of(p) : nullptr;
    if (!leaf) continue;
    const std::lock_guard lock(leaf->mutex);
    leaf->shadow = {};
  }
}

CastStatistics cast_statistics() { return statistics; }

}  // namespace mantissa::amp
