// Operators composed of other operators that still have an autocast policy, argument names and a single rounding:
//
//   struct Lerp {
//     static constexpr auto name = "lerp";
//     static constexpr const char* args[] = {"start", "end", "weight"};
//     static constexpr bool differentiable = true;
//     static Tensor compose(const Lerp&, const Tensor& start, const Tensor& end, const Tensor& weight);
//     static void samples(Samples&);   // adds with composed(s, {inputs}, op), composed_error(...)
//   };
//   MANTISSA_OP(Lerp)
//   Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& w) { return apply_composed(Lerp{}, a, b, w); }
//
// Gradients come from the inner operators. f16 and bf16 inputs are computed in f32 and rounded once, at the end; an
// operator with `static constexpr bool widens_itself = true` gets them unconverted. Autocast is off inside: the
// operator's own policy has already been applied.
//
// A plain function gets a policy with a Composite, and declares it in the registry: MANTISSA_COMPOSITE(bmm, samples,
// .autocast = CastPolicy::lower, .has_policy = true).
#pragma once

#include "core/ops.h"
#include "ops/apply.h"
#include "ops/promotion.h"
#include "ops/registry.h"

namespace mantissa {
namespace detail {

// Like add_operator_context, but also prefixes errors that an inner operator has already given its own context.
void add_composed_context(Error& e, const char* name, std::span<const char* const> args,
                          std::span<const Tensor* const> x);

// Applies the cast `policy`, then converts f16 and bf16 inputs to f32. Returns the dtype of a floating result: the
// promoted dtype of the floating inputs or, with f32_inside, the dtype of the first (as for norms, whatever dtype their
// weights have).
inline Dtype widen_inputs(const char* name, CastPolicy policy, std::span<const Tensor*> x, std::span<Tensor> casts,
                          std::span<Tensor> wide, bool widen = true) {
  if (context().autocast.any()) [[unlikely]] amp::cast_inputs(name, policy, x, casts);
  Meeting result(f32, Meeting::number);
  for (const Tensor* t : x) {
    if (!t->defined() || !t->is_floating() || t->is_weak_scalar()) continue;
    result = meet(result, Meeting(*t));
    if (policy == CastPolicy::f32_inside) break;
  }
  for (std::size_t i = 0; widen && i < x.size(); ++i) {
    if (!x[i]->defined() || !is_half(x[i]->dtype())) continue;
    wide[i] = cast(*x[i], f32);
    x[i] = &wide[i];
  }
  return result.dtype;
}

void enter_composite(const char* name, CastPolicy own, std::span<const Tensor*> x, std::span<Tensor> casts);

}  // namespace detail

template <class Op, class... T> Tensor apply_composed(const Op& op, const T&... inputs) {
  constexpr std::size_t n = sizeof...(T);
  const Tensor* x[n] = {&static_cast<const Tensor&>(inputs)...};
  const Tensor* given[n] = {&static_cast<const Tensor&>(inputs)...};
  Tensor casts[n], wide[n];
  try {
    const ProfileRange range(ProfileKind::op, Op::name, given);
    detail::check_same_device<Op>(x);
    constexpr bool widens_itself = requires { Op::widens_itself; };
    const Dtype result = detail::widen_inputs(Op::name, policy_of<Op>(), x, casts, wide, !widens_itself);
    const bool autocast = context().autocast.any();
    const amp::OutsideAutocast off;
    Tensor y = [&]<std::size_t... i>(std::index_sequence<i...>) { return Op::compose(op, *x[i]...); }
    (std::make_index_sequence<n>{});
    if (is_half(result) && y.is_floating()) y = cast(y, result);
    if (autocast) [[unlikely]] amp::note_result(y);
    return y;
  } catch (Error& e) {
    detail::add_composed_context(e, Op::name, Op::args, given);
    throw;
  }
}

// Gives a function made of operators an autocast policy: casts its arguments and turns autocast off until it is
// destroyed. Does nothing outside autocast regions.
//
//   Tensor bmm(const Tensor& a, const Tensor& b) {
//     const Composite in("bmm", CastPolicy::lower, {&a, &b});
//     return in.result(matmul(in[0], in[1]));
//   }
template <std::size_t n> class Composite {
 public:
  Composite(const char* name, CastPolicy own, const Tensor* const (&arguments)[n]) : before_(context().autocast) {
    for (std::size_t i = 0; i < n; ++i) x_[i] = arguments[i];
    if (before_.any()) [[unlikely]] detail::enter_composite(name, own, x_, casts_);
  }
  ~Composite() { context().autocast = before_; }
  Composite(const Composite&) = delete;
  Composite& operator=(const Composite&) = delete;

  const Tensor& operator[](std::size_t i) const { return *x_[i]; }
  bool in_region(Device device) const { return before_.enabled_on(device); }
  Tensor result(Tensor y) const {  // records the function's result, for amp/explain.h
    if (before_.any()) [[unlikely]] amp::note_result(y);
    return y;
  }

 private:
  AutocastState before_;
  const Tensor* x_[n];
  Tensor casts_[n];
};

namespace detail {
template <std::size_t n, class Op> auto composed_call(const Op& op) {
  return [op](const Tensors& x) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return Tensors{apply_composed(op, x[i]...)}; }
    (std::make_index_sequence<n>{});
  };
}
}  // namespace detail
template <class Op, std::size_t n> Sample& composed(Samples& s, const Tensor (&inputs)[n], const Op& op) {
  return s.call(Tensors(inputs, inputs + n), detail::composed_call<n>(op));
}
template <class Op, std::size_t n>
void composed_error(Samples& s, const Tensor (&inputs)[n], const Op& op, std::string fragment) {
  s.error_call(Tensors(inputs, inputs + n), detail::composed_call<n>(op), std::move(fragment));
}

}  // namespace mantissa
