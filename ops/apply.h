// apply(op, inputs...): runs any operator. All steps of a call are in one function, run_operator: autocast, shape
// inference, kernel, autograd.
#pragma once

#include <utility>

#include "amp/autocast.h"
#include "autograd/anomaly.h"
#include "autograd/last_owner.h"
#include "autograd/op_node.h"
#include "core/context.h"
#include "core/profile.h"
#include "ops/onnx.h"
#include "ops/op.h"

namespace mantissa {
namespace detail {

// "matmul(a: f32[2, 3], b: f32[4, 5])": the prefix of every error that an operator throws.
std::string describe_call(const char* name, std::span<const char* const> args, std::span<const Tensor* const> x);
void add_operator_context(Error& e, const char* name, std::span<const char* const> args,
                          std::span<const Tensor* const> x);
[[noreturn]] void fail_device(std::span<const Tensor* const> x);
// C++ numbers are allowed with any device; operators with `takes_host_numbers` also mix 0-d CPU tensors with GPU
// tensors. Returns whether there are numbers that have to be moved to a GPU first, because other operators' kernels
// cannot read them on the host.
template <class Op> bool check_same_device(std::span<const Tensor* const> x) {
  const Tensor* first = nullptr;
  bool numbers = false;
  for (const Tensor* t : x) {
    if (!t->defined()) continue;
    if (t->is_weak_scalar()) {
      numbers = true;
      continue;
    }
    if constexpr (requires { Op::takes_host_numbers; }) {
      if (t->dim() == 0 && t->device().is_cpu()) continue;
    }
    if (!first) first = t;
    if (!(t->device() == first->device())) [[unlikely]] fail_device(x);
  }
  if constexpr (requires { Op::takes_host_numbers; }) return false;
  return numbers && first && !first->device().is_cpu();
}
// Replaces the numbers among x with tensors on the device of the others, held by `moved`.
void move_numbers(std::span<const Tensor*> x, std::span<Tensor> moved);

// How a call allocates its results.
struct CallOptions {
  std::span<const Tensor* const> over = {};  // tensors whose memory result 0 may reuse: apply_over
  bool widen = false;                        // result 0 is in f32, whatever infer says: `reads_half` (ops/op.h)
};
Tensor allocate_over(const Spec& s, std::span<const Tensor* const> over);

inline Tensor allocate(const Spec& s, const CallOptions& o) {
  if (o.over.empty() && !o.widen) [[likely]] return Tensor::allocate(s.sizes, s.dtype, s.device, s.layout);
  Spec result = s;
  if (o.widen) result.dtype = f32;
  return allocate_over(result, o.over);
}
template <std::size_t k> std::array<Tensor, k> allocate(const std::array<Spec, k>& s, const CallOptions& o) {
  std::array<Tensor, k> y;
  y[0] = allocate(s[0], o);
  for (std::size_t i = 1; i < k; ++i) y[i] = allocate(s[i], {});
  return y;
}
inline View views(const Tensor& y) { return y.view(); }
template <std::size_t k> std::array<View, k> views(const std::array<Tensor, k>& y) {
  std::array<View, k> v;
  for (std::size_t i = 0; i < k; ++i) v[i] = y[i].view();
  return v;
}
inline std::span<Tensor> results(Tensor& y) { return {&y, 1}; }
template <std::size_t k> std::span<Tensor> results(std::array<Tensor, k>& y) { return y; }
template <class Y> inline constexpr int result_count = 1;
template <std::size_t k> inline constexpr int result_count<std::array<Tensor, k>> = static_cast<int>(k);

inline bool should_record(std::span<const Tensor* const> x) {
  if (!context().grad_enabled) return false;
  for (const Tensor* t : x) if (t->requires_grad()) return true;
  return false;
}

template <class Bound> [[gnu::cold, gnu::noinline]] auto traced_reference(const Bound& bound) {
  const amp::OutsideAutocast off;
  return bound.reference();
}

// The steps of a call, in this order. `bound` is the operator with its inputs, a fixed number or a list: bound.make()
// infers shapes, allocates and runs the kernel; bound.reference() computes the same result from other operators.
template <class Op, int inputs, class Bound>
auto run_operator(const Op& op, std::span<const Tensor*> x, std::span<Tensor> casts, Bound&& bound) {
  check_operator<Op>();
  const ProfileRange range(ProfileKind::op, Op::name, x);
  const bool autocast = context().autocast.any();
  if (autocast) [[unlikely]] {  // 1: autocast
    const bool traced = context().autocast.traced;
    bound.options.widen = amp::cast_inputs(
        Op::name, policy_of<Op>(), x, casts, requires { Op::reads_half; } && !traced);
    if constexpr (HasReference<Op> && !HasOnnx<Op>) {
      if constexpr (std::is_same_v<decltype(bound.reference()), decltype(bound.make())>) {
        if (traced) return traced_reference(bound);  // exported to ONNX as its reference
      }
    }
  }
  if constexpr (!HasView<Op>) {  // 2: devices
    if (check_same_device<Op>(x)) [[unlikely]] move_numbers(x, casts);
  }
  const bool record = differentiable<Op>() && should_record(x);
  if constexpr (differentiable<Op>() && !HasVjp<Op>) {
    if (record) {  // no gradient rule: differentiate the reference
      const amp::OutsideAutocast off;
      auto y = bound.reference();
      if (autocast) [[unlikely]] amp::note_result(results(y)[0]);
      return y;
    }
  }
  auto y = bound.make();  // 3: shapes, 4: backend
  if constexpr (HasVjp<Op>) {
    auto outs = results(y);
    if (record && outs[0].is_floating()) {  // 5: autograd
      outs[0].impl()->node =
          autograd::NodeRef(new autograd::OpNode<Op, inputs, result_count<decltype(y)>>(op, x, outs));
    }
  }
  if (autocast) [[unlikely]] {
    amp::note_result(results(y)[0]);
    if (context().autocast.traced) note_for_onnx(op, x, results(y));
  }
  if (context().anomaly) [[unlikely]] autograd::check_result(results(y)[0], x);
  return y;
}

template <class Op, std::size_t n> struct BoundFixed {
  const Op& op;
  const Tensor* const (&x)[n];
  CallOptions options = {};

  template <class F> auto unpack(F&& f) const {
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return f(*x[i]...); }(std::make_index_sequence<n>{});
  }
  auto reference() const { return unpack([&](const auto&... t) { return Op::reference(op, t...); }); }
  auto make() const {
    if constexpr (HasView<Op>) {
      return unpack([&](const auto&... t) { return op.view(t...); });
    } else {
      auto y = allocate(unpack([&](const auto&... t) { return op.infer(t...); }), options);
      unpack([&](const auto&... t) { op.run(views(y), t.view()...); return 0; });
      return y;
    }
  }
};

template <class Op> struct BoundList {
  const Op& op;
  std::span<const Tensor* const> x;
  CallOptions options = {};

  std::vector<Tensor> tensors() const {
    std::vector<Tensor> t;
    for (const Tensor* p : x) t.push_back(*p);
    return t;
  }
  auto reference() const { return Op::reference(op, std::span<const Tensor>(tensors())); }
  auto make() const {
    const std::vector<Tensor> t = tensors();
    auto y = allocate(op.infer(std::span<const Tensor>(t)), options);
    std::vector<View> v;
    for (const Tensor& one : t) v.push_back(one.view());
    op.run(views(y), std::span<const View>(v));
    return y;
  }
};

}  // namespace detail

// apply() for gradient rules: result 0 may reuse the memory of the first tensor in `over` that allows it. `over` lists
// the Grad, In and Out parameters that the rule no longer needs; it must not use them afterwards
// (autograd/last_owner.h). The kernel must read element i (or its row) before writing it.
template <class Op, class... T>
  requires(sizeof...(T) > 0 && (std::is_convertible_v<const T&, const Tensor&> && ...))
auto apply_over(std::initializer_list<const Tensor*> over, const Op& op, const T&... inputs) {
  constexpr std::size_t n = sizeof...(T);
  const Tensor* x[n] = {&static_cast<const Tensor&>(inputs)...};
  Tensor casts[n];
  try {
    return detail::run_operator<Op, static_cast<int>(n)>(
        op, x, casts, detail::BoundFixed<Op, n>{op, x, {.over = {over.begin(), over.size()}}});
  } catch (Error& e) {
    detail::add_operator_context(e, Op::name, Op::args, x);
    throw;
  }
}

template <class Op, class... T>
  requires(sizeof...(T) > 0 && (std::is_convertible_v<const T&, const Tensor&> && ...))
auto apply(const Op& op, const T&... inputs) {
  return apply_over({}, op, inputs...);
}

// The same for operators on a list of tensors. (Not an overload of apply: for a span, ADL would also find std::apply.)
template <class Op> auto apply_list(const Op& op, std::span<const Tensor> inputs) {
  std::vector<const Tensor*> x;
  for (const Tensor& t : inputs) x.push_back(&t);
  std::vector<Tensor> casts(x.size());
  try {
    return detail::run_operator<Op, -1>(op, x, casts, detail::BoundList<Op>{op, x});
  } catch (Error& e) {
    detail::add_operator_context(e, Op::name, Op::args, x);
    throw;
  }
}

}  // namespace mantissa
