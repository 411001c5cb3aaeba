// The operator interface. An operator is a plain struct whose fields are its attributes, with
//
//   static constexpr auto name = "softmax";
//   static constexpr const char* args[] = {"x"};          names of the tensor inputs, for messages
//   static constexpr auto autocast = CastPolicy::f32;      default: keep
//   Spec infer(const Tensor& x) const;                     result shape and dtype; every check the user
//                                                          can fail; std::array<Spec, K> for K results
//   void run(const View& y, const View& x) const;          calls kernels; K results: std::array<View, K>
//   static constexpr auto vjp() { return rules(...); }     gradients (autograd/rule.h)
//   static Tensor reference(const Softmax&, const Tensor&) the same result by other operators: for tests, for
//                                                          second derivatives and for ONNX
//   static void samples(Samples&);                         inputs for the tests (ops/registry.h)
//   void onnx(OnnxCall& c) const;                          its ONNX nodes; default: those of reference (ops/onnx.h)
//
// Only the first result carries a gradient; the others are saved statistics or indices.
// Variations:
//   - `Tensor view(const Tensor& x) const` instead of infer and run: the result shares storage. If it is a slice of x,
//     `Part part(const Dims& sizes) const` says which, and backward writes its gradient straight into that slice of
//     x's gradient (autograd/part.h).
//   - a list of inputs (cat): infer and run take std::span<const Tensor>, std::span<const View>, and
//     apply_list() calls it.
//   - without vjp but with reference: apply() runs the reference whenever a gradient is being
//     recorded. That is how fused backward kernels get second derivatives.
//   - `compose` instead of all but samples: ops/compose.h.
// Optional fields, each `static constexpr`:
//   bool differentiable = false           for argmax, comparisons; default: true if it has a vjp or a reference
//   bool reads_half = true                if autocast asks for f32, f16 and bf16 inputs are not cast: the kernel reads
//                                         them directly and writes result 0 in f32. So no f32 copy is saved for
//                                         backward, and the gradient is rounded only once.
//   bool takes_host_numbers = true        0-d CPU tensors may be mixed with tensors on a GPU
// and for the tests (defaults: OpInfo in ops/registry.h):
//   bool twice_differentiable = false     no second-order gradcheck
//   bool halves = false                   has no kernel for f16 and bf16
//   bool random = true, mutates = true    draws from the random generator; writes into some of its inputs
//   std::uint64_t constants               bit i: input i has no gradient by design
// Call it with apply() (ops/apply.h) and register it with MANTISSA_OP (ops/registry.h). User-defined operators are
// structs of the same kind (samples/custom_op.cpp).
#pragma once

#include "amp/policy.h"
#include "autograd/rule.h"
#include "core/kernel.h"
#include "core/tensor.h"

namespace mantissa {

struct Spec {
  Dims sizes;
  Dtype dtype = f32;
  Device device;
  Layout layout = Layout::contiguous;
};
// Contiguous results, whatever the layout of x.
inline Spec like(const Tensor& x) { return {x.sizes(), x.dtype(), x.device()}; }
inline Spec like(const Tensor& x, Dtype dtype) { return {x.sizes(), dtype, x.device()}; }
inline Spec like(const Tensor& x, const Dims& sizes) { return {sizes, x.dtype(), x.device()}; }

// For operators on images and volumes whose kernels can write any strides: the result is channels-last when any of `x`
// is. (In backward the gradient may arrive contiguous; the saved input tells the layout of the forward pass.) Pass the
// result as a Spec: `in_layout_of(like(x), x, y)`.
template <class... T> Spec in_layout_of(Spec s, const T&... x) {
  const int rank = s.sizes.rank();
  const auto is_last = [rank](const Tensor& t) {
    return t.defined() && t.dim() == rank && t.layout() == Layout::channels_last;
  };
  if ((rank == 4 || rank == 5) && (is_last(x) || ...)) s.layout = Layout::channels_last;
  return s;
}
inline Spec like_layout(const Tensor& x) { return in_layout_of(like(x), x); }
inline Spec like_layout(const Tensor& x, Dtype dtype) { return in_layout_of(like(x, dtype), x); }
inline Spec like_layout(const Tensor& x, const Dims& sizes) { return in_layout_of(like(x, sizes), x); }

// For backward kernels, which only gradient rules call: a short check of an input's sizes.
inline void check_sizes(const Tensor& t, const char* name, const Dims& expected) {
  check(t.sizes() == expected, "the ", name, " has shape ", t.sizes(), ", expected ", expected);
}

template <class Op> constexpr CastPolicy policy_of() {
  if constexpr (requires { Op::autocast; }) return Op::autocast;
  else return CastPolicy::keep;
}
template <class Op> concept HasVjp = requires { Op::vjp(); };
template <class Op> concept HasReference = requires { &Op::reference; };
template <class Op> concept HasView = requires { &Op::view; };
template <class Op> constexpr bool differentiable() {
  if constexpr (requires { Op::differentiable; }) return Op::differentiable;
  else return HasVjp<Op> || HasReference<Op>;
}
template <class Op> constexpr void check_operator() {
  static_assert(requires { Op::name; }, "an operator needs: static constexpr auto name = \"...\";");
  static_assert(requires { Op::args; }, "an operator needs: static constexpr const char* args[] = {\"x\", ...};");
  static_assert(HasVjp<Op> || HasReference<Op> || requires { Op::differentiable; },
                "an operator needs vjp() or reference(), or says: static constexpr bool differentiable = false;");
}

}  // namespace mantissa
