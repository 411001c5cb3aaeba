#include "amp/autocast.h"

#include "amp/modules.h"
#include "amp/observe.h"

namespace mantissa::amp {
namespace {

constexpr DeviceType device_types[] = {DeviceType::cpu, DeviceType::cuda};

void check_dtype(Dtype d) {
  check(is_half(d) || d == f32, "autocast: the dtype must be f16, bf16 or f32, got ", d);
}
void set(DeviceType type, Dtype dtype) {
  AutocastState& s = context().autocast;
  s.enabled[static_cast<int>(type)] = dtype != f32;
  if (dtype != f32) s.dtype[static_cast<int>(type)] = dtype;
}

struct Choice {
  CastPolicy policy;
  Decider decider;
  const PolicyModule* module = nullptr;
};
Choice choose(const char* op, CastPolicy own, std::span<const Tensor* const> x) {
  const AutocastState& state = context().autocast;
  if (!state.overlay) return {own, Decider::operator_itself};
  const PolicyModule* module = module_of(*state.overlay, state.module, x);
  if (module) {
    if (const CastPolicy* p = find_policy(*module, op)) return {*p, Decider::module, module};
  }
  if (const CastPolicy* p = find_policy(state.overlay, op)) return {*p, Decider::region, module};
  return {own, Decider::operator_itself, module};
}

bool eligible(const Tensor& t) {
  return t.defined() && t.is_floating() && t.dtype() != f64 && !t.is_weak_scalar() &&
         context().autocast.enabled_on(t.device());
}
// The widest dtype of the eligible inputs; f32 if there is none.
Dtype widest(std::span<const Tensor* const> x) {
  bool any = false;
  Dtype target = f32;
  for (const Tensor* t : x) {
    if (!eligible(*t)) continue;
    check(!any || target == t->dtype() || !is_half(target) || !is_half(t->dtype()), "inputs are ", target, " and ",
          t->dtype(), ": autocast does not mix the two half precisions; cast one with to()");
    target = any ? promote(target, t->dtype()) : t->dtype();
    any = true;
  }
  return target;
}
void check_ban(const char* op, std::span<const Tensor* const> x) {
  for (const Tensor* t : x) {
    if (!t->defined() || !context().autocast.enabled_on(t->device())) continue;
    fail(
        "is unsafe under autocast: its gradient passes through half precision, where 1 / (1 - x) overflows. Use "
        "binary_cross_entropy_with_logits on what goes into the sigmoid, leave the region with Autocast(disabled), or "
        "lift the ban with Policies().set(\"",
        op, "\", CastPolicy::f32)");
  }
}

}  // namespace

Autocast::Autocast(Dtype dtype) : before_(context().autocast) {
  check_dtype(dtype);
  for (DeviceType type : device_types) set(type, dtype);
  ++context().autocast.depth;
}
Autocast::Autocast(Device device, Dtype dtype) : before_(context().autocast) {
  check_dtype(dtype);
  set(device.type, dtype);
  ++context().autocast.depth;
}
Autocast::Autocast(const AutocastOptions& options) : before_(context().autocast) {
  if (options.dtype && options.enabled) check_dtype(*options.dtype);
  const Overlay* overlay = overlay_on(before_.overlay, options.policies);  // may throw: before anything is changed
  AutocastState& s = context().autocast;
  for (DeviceType type : device_types) {
    if (options.device && options.device->type != type) continue;
    if (options.enabled) set(type, options.dtype.value_or(before_.dtype[static_cast<int>(type)]));
    else s.enabled[static_cast<int>(type)] = false;
  }
  s.overlay = overlay;
  if (options.cache) s.cache = *options.cache;
  ++s.depth;
}
Autocast::Autocast(Disabled) : before_(context().autocast) {
  context().autocast.enabled[0] = context().autocast.enabled[1] = false;
  ++context().autocast.depth;
}
Autocast::~Autocast() {
  context().autocast = before_;
  if (before_.depth == 0) end_of_regions();
}

bool cast_inputs(const char* op, CastPolicy own, std::span<const Tensor*> x, std::span<Tensor> casts,
                 bool reads_half) {
  const AutocastState& state = context().autocast;
  const Choice choice = choose(op, own, x);
  if (Observer::current()) [[unlikely]]
    Observer::current()->begin({op, choice.policy, choice.decider, choice.module, x});
  switch (choice.policy) {
    case CastPolicy::keep:
    case CastPolicy::f32_inside: return false;
    case CastPolicy::banned: check_ban(op, x); return false;
    default: break;
  }
  const Dtype target = choice.policy == CastPolicy::promote ? widest(x) : f32;
  bool widen = false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!eligible(*x[i])) continue;
    const Dtype to = choice.policy == CastPolicy::lower ? state.dtype_on(x[i]->device()) : target;
    if (x[i]->dtype() == to) continue;
    if (reads_half && to == f32 && is_half(x[i]->dtype())) {
      widen |= i == 0;
      continue;
    }
    casts[i] = cast_in_region(*x[i], to);
    x[i] = &casts[i];
  }
  return widen;
}

void note_result(const Tensor& result) {
  if (Observer::current()) [[unlikely]] Observer::current()->end(result);
}

}  // namespace mantissa::amp
