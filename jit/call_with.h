// Calls a function with as many tensors as it takes.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include "core/tensor.h"

namespace mantissa::jit {

using ElementwiseFunction = std::function<Tensor(std::span<const Tensor>)>;  // see jit/fuse.h

namespace detail {

// Calls f with the tensors of a list. Tries 0 to 8 arguments; the number that f accepts is chosen at compile time.
template <class F, std::size_t... i> auto call_with(F& f, std::span<const Tensor> x, std::index_sequence<i...>) {
  return f(x[i]...);
}
template <std::size_t, class T> using always = T;
template <class F, std::size_t... i> constexpr bool takes(std::index_sequence<i...>) {
  return std::is_invocable_v<F&, always<i, const Tensor&>...>;
}
template <class F, std::size_t n = 0> constexpr std::size_t arity() {
  static_assert(n <= 8, "a function for jit::capture or jit::fuse takes up to eight tensors");
  if constexpr (takes<F>(std::make_index_sequence<n>())) return n;
  else return arity<F, n + 1>();
}

}  // namespace detail
}  // namespace mantissa::jit
