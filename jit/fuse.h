// jit::fuse compiles an elementwise function into a single pass over memory:
//
//   auto swiglu = jit::fuse([](Tensor x, Tensor gate) { return x * gate * sigmoid(gate); }, "swiglu");
//   Tensor y = swiglu(x, gate);        // one kernel; its gradients take one more
//
// The function may be any code that calls elementwise operators on tensors: arithmetic, comparisons, where,
// activations, modules made of these. For each new combination of dtypes it is called on a few numbers to record the
// formulas that it and its gradients compute (jit/trace.h), and these are checked against it on others. After that it
// is not called again: it must depend only on its arguments, and not on their sizes and values. Up to eight arguments,
// floating, bool or C++ numbers, with shapes that broadcast.
//
// Differences from separate operators: nothing is rounded in between, so results are more accurate (a cast that would
// make a difference is an error); for f32 alone, or f64 alone, the CPU gives the same bits. Only the arguments are
// saved for backward. Second derivatives run separate operators. Autocast chooses dtypes as it would for the operators.
// Inputs may have any strides.
//
// On the CPU the formulas run one after another over tiles that stay in the L1 cache. On a GPU they are compiled by
// NVRTC on first use (nvrtc_test's functions: 170 to 320 ms each, 24 sines 3 s); in a program built without NVRTC the
// operators run separately there.
//
// A broadcast argument's gradient is computed in the shape of the result and then summed. As torch.compile of such a
// function, or jax.jit; explicit, like mx.compile.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/call_with.h"

namespace mantissa::jit {

// The same for any number of arguments; made by fuse() below. Copies share compiled code. Thread-safe.
class FusedFunction {
 public:
  FusedFunction(ElementwiseFunction function, std::string name);
  // Throws if the function is not elementwise, naming the operator; for integers; if shapes do not broadcast.
  Tensor call(std::span<const Tensor> arguments) const;
  // Number of combinations of dtypes and autocast states traced so far.
  std::size_t traces() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

template <std::size_t n> class Fused : public FusedFunction {
 public:
  using FusedFunction::FusedFunction;
  template <class... T> Tensor operator()(const T&... arguments) const {
    static_assert(sizeof...(T) == n, "a fused function is called with as many tensors as the function takes");
    const Tensor all[] = {Tensor(arguments)...};
    return call(all);
  }
};

// `name` is used in error messages.
template <class F> Fused<detail::arity<F>()> fuse(F function, std::string name = "fused function") {
  constexpr std::size_t n = detail::arity<F>();
  static_assert(n > 0, "jit::fuse takes a function of at least one tensor");
  return Fused<n>(
      [function = std::move(function)](std::span<const Tensor> x) mutable -> Tensor {
        return detail::call_with(function, x, std::make_index_sequence<n>());
      },
      std::move(name));
}

}  // namespace mantissa::jit
