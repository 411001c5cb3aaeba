#include "ops/apply.h"

#include "core/packed_weights.h"
#include "ops/compose.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace detail {

void enter_composite(const char* name, CastPolicy own, std::span<const Tensor*> x, std::span<Tensor> casts) {
  try {
    amp::cast_inputs(name, own, x, casts);
  } catch (Error& e) {
    e.add_context(name);
    throw;
  }
  context().autocast.enabled[0] = context().autocast.enabled[1] = context().autocast.observed = false;
}

Tensor allocate_over(const Spec& s, std::span<const Tensor* const> over) {
  if (!over.empty() && !context().grad_enabled) {
    const Dims strides = dense_strides(s.sizes, s.layout);
    for (const Tensor* t : over) {
      if (!autograd::may_write_over(*t, s.sizes, strides, s.dtype, s.device)) continue;
      packed_weights::forget(t->storage().get());  // packed copies of the old values; no version tells
      return t->detach();
    }
  }
  return Tensor::allocate(s.sizes, s.dtype, s.device, s.layout);
}

std::string describe_call(const char* name, std::span<const char* const> args, std::span<const Tensor* const> x) {
  std::string text = concat(name, "(");
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i > 0) text += ", ";
    if (x.size() <= args.size()) text += concat(args[i], ": ");
    text += x[i]->defined() ? describe(*x[i]) : std::string("none");
  }
  return text + ")";
}

void add_operator_context(Error& e, const char* name, std::span<const char* const> args,
                          std::span<const Tensor* const> x) {
  if (!e.has_context()) e.add_context(describe_call(name, args, x));
}
void add_composed_context(Error& e, const char* name, std::span<const char* const> args,
                          std::span<const Tensor* const> x) {
  if (e.has_context()) e.add_outer_context(describe_call(name, args, x));
  else e.add_context(describe_call(name, args, x));
}

void fail_device(std::span<const Tensor* const> x) {
  std::string devices;
  for (const Tensor* t : x) {
    if (t->defined() && !t->is_weak_scalar()) devices += concat(devices.empty() ? "" : ", ", t->device());
  }
  fail("inputs are on different devices (", devices, "); move them together with to(device)");
}

void move_numbers(std::span<const Tensor*> x, std::span<Tensor> moved) {
  Device device = cpu;
  for (const Tensor* t : x) {
    if (t->defined() && !t->is_weak_scalar()) device = t->device();
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!x[i]->defined() || !x[i]->is_weak_scalar()) continue;
    Tensor there = Tensor::allocate({}, x[i]->dtype(), device);
    kernels::copy(device, there.view(), x[i]->view());
    there.impl()->weak_scalar = true;  // dtypes are promoted as before
    moved[i] = std::move(there);
    x[i] = &moved[i];
  }
}

}  // namespace detail
}  // namespace mantissa
