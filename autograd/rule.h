// Gradient rules. An operator's vjp() lists one rule per input:
//
//   return rules([](Grad g, In<1> b) { return matmul(g, transpose(b)); },
//                [](Grad g, In<0> a) { return matmul(transpose(a), g); });
//
// A rule's parameter types say what it needs, and only that is saved: with the rules above b is saved only if a
// requires a gradient. Parameters may be, in any order,
//   const Op&   the operator's attributes          Grad     the gradient of result 0
//   In<i>       input i                            Out<k>   result k
//   Shape<i>    sizes and dtype of input i, free   Needs    which inputs require a gradient
//   Shapes      those of all inputs (lists)        Into<i>  where the gradient of input i goes (autograd/place.h)
//   ActivationOf<i>  in the rule of input i: the activation that made it, which the rule then has to differentiate, too
//   Unchanged<k>     result k, if an activation made input 0 and nobody has changed the result since; else undefined
//   Arrived     the gradient of input 0 that its other consumers have contributed so far; may be undefined. A rule
//               that takes it returns the sum: one pass over memory less than an addition, with the same bits
// `no_gradient` stands for an input without one. joint(rule) returns std::array<Tensor, inputs> at once, for gradients
// that share work (norms); inputs that need none may stay undefined. Broadcasting and casts are undone by the node,
// never in a rule. Rules take tensors by value: the last rule of a node gets the node's own handles, so apply_over can
// reuse memory that nobody else holds (autograd/last_owner.h).
#pragma once

#include <tuple>
#include <type_traits>

#include "autograd/input_meta.h"
#include "core/activation.h"
#include "core/tensor.h"

namespace mantissa {

namespace autograd {
// An activation of whose derivative a rule takes care: the rule returns the gradient with respect to the activation's
// input, and the activation's own node does not run. Nobody may want to see the gradient between the two.
struct SavedActivation {
  Activation kind = Activation::none;  // none: there is none
  Tensor saved;                        // relu's result, gelu's input; of the size of the rule's input
};
}  // namespace autograd

struct Grad : Tensor {};
template <int i> struct In : Tensor {};
template <int k> struct Out : Tensor {};
template <int i> struct Shape {
  Dims sizes;
  Dtype dtype;
};
using Shapes = std::span<const InputMeta>;
struct Arrived : Tensor {};
template <int i> struct Into : Destination {};
template <int i> struct ActivationOf : autograd::SavedActivation {};
template <int k> struct Unchanged : Tensor {};
struct Needs {
  std::uint64_t mask = 0;
  bool operator[](int i) const { return mask >> i & 1; }
};
struct NoGradient {};
inline constexpr NoGradient no_gradient{};

template <class... F> struct Rules { std::tuple<F...> rules; };
template <class F> struct Joint { F rule; };
template <class... F> constexpr Rules<F...> rules(F... f) { return {{f...}}; }
template <class F> constexpr Joint<F> joint(F f) { return {f}; }

namespace autograd {

// The parameter list of a (non-generic) lambda.
template <class F> struct Parameters;
template <class C, class R, class... A> struct Parameters<R (C::*)(A...) const> {
  using List = std::tuple<std::remove_cvref_t<A>...>;
};
template <class F> using ParametersOf = typename Parameters<decltype(&F::operator())>::List;

// Bit mask of what a parameter or rule needs saved: inputs from bit 0, results from bit 32, and results that are only
// needed behind an activation.
inline constexpr int unchanged_bit = 48;
template <class T> struct Needed { static constexpr std::uint64_t bits = 0; };
template <int i> struct Needed<In<i>> { static constexpr std::uint64_t bits = std::uint64_t{1} << i; };
template <int k> struct Needed<Out<k>> { static constexpr std::uint64_t bits = std::uint64_t{1} << (32 + k); };
template <int k> struct Needed<Unchanged<k>> {
  static constexpr std::uint64_t bits = std::uint64_t{1} << (unchanged_bit + k);
};

template <class F> constexpr std::uint64_t saved_by_rule() {
  if constexpr (std::is_same_v<F, NoGradient>) {
    return 0;
  } else {
    return []<class... A>(std::tuple<A...>*) { return (Needed<A>::bits | ... | std::uint64_t{0}); }(
        static_cast<ParametersOf<F>*>(nullptr));
  }
}

template <class T> inline constexpr bool has_arrived = false;
template <class... A> inline constexpr bool has_arrived<std::tuple<A...>> = (std::is_same_v<A, Arrived> || ...);
template <class... F> constexpr bool takes_arrived(const Rules<F...>&) { return false; }  // no rule needs it so far
template <class F> constexpr bool takes_arrived(const Joint<F>&) { return has_arrived<ParametersOf<F>>; }

// The i of ActivationOf<i> among the parameters of a rule, or of any of the rules; -1: none.
template <class T> inline constexpr int activation_input = -1;
template <int i> inline constexpr int activation_input<ActivationOf<i>> = i;
template <class F> constexpr int activation_of_rule() {
  int i = -1;
  if constexpr (!std::is_same_v<F, NoGradient>) {
    [&]<class... A>(std::tuple<A...>*) { ((i = activation_input<A> >= 0 ? activation_input<A> : i), ...); }(
        static_cast<ParametersOf<F>*>(nullptr));
  }
  return i;
}
template <class... F> constexpr int activation_of_rules(const Rules<F...>&) {
  int i = -1;
  ((i = activation_of_rule<F>() >= 0 ? activation_of_rule<F>() : i), ...);
  return i;
}
template <class F> constexpr int activation_of_rules(const Joint<F>&) { return -1; }

// What must be saved if the inputs in `wanted` require gradients.
template <class... F> constexpr std::uint64_t saved_bits(const Rules<F...>&, std::uint64_t wanted) {
  int i = 0;
  std::uint64_t bits = 0;
  ((bits |= wanted >> i & 1 ? saved_by_rule<F>() : 0, ++i), ...);
  return bits;
}
template <class F> constexpr std::uint64_t saved_bits(const Joint<F>&, std::uint64_t wanted) {
  return wanted ? saved_by_rule<F>() : 0;
}

}  // namespace autograd
}  // namespace mantissa
