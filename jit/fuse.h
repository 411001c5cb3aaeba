// jit::fuse makes one pass over memory of a function that computes every element by itself:
//
//   auto swiglu = jit::fuse([](Tensor x, Tensor gate) { return x * gate * sigmoid(gate); }, "swiglu");
//   Tensor y = swiglu(x, gate);        // one kernel; its gradients are one more
//
// The function is any code over tensors that calls elementwise operators: arithmetic, comparisons, where, activations,
// modules made of such. It is called when its dtypes are new, on a few numbers, to see which formulas it and its
// gradients compute (jit/trace.h), and what was found is held against it on others. From then on it is not called
// again: it must not depend on anything but its arguments, nor on their sizes and values. Up to eight arguments,
// floating, bool or C++ numbers, of shapes that broadcast.
//
// What differs from the operators apart: nothing is rounded between them, so the result is nearer to the exact one (a
// cast that would show is an error); of f32 alone, or f64, the CPU gives the same bits. Arguments are kept, nothing in
// between. Second derivatives run the operators apart. Autocast decides on dtypes as it would for the operators. Inputs
// may have any strides.
//
// On the CPU the formulas run one after another over tiles that stay in the first-level cache. On a GPU they are
// compiled by NVRTC when first needed (nvrtc_test's functions: 170 to 320 ms each, 24 sines 3 s); in a program built
// without NVRTC the operators run apart there.
//
// An argument that broadcasts gets its gradient in the shape of the result, which is then summed.
// As torch.compile of such a function, or jax.jit; written down explicitly, as mx.compile.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/call_with.h"

namespace mantissa::jit {

// The same for any number of arguments; fuse() below is the way to make one. Copies share what was compiled; calls may
// come from several threads.
class FusedFunction {
 public:
  FusedFunction(ElementwiseFunction function, std::string name);
  // Throws where the function is not elementwise, naming what it calls; for integers; where shapes do not broadcast.
  Tensor call(std::span<const Tensor> arguments) const;
  // How many combinations of dtypes and autocast it has met.
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

// `name` is what errors call it.
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
