// Custom functions that run in a fixed dtype, whatever autocast region they are called from.
//
//   auto sensitive = amp::custom_fwd(f32, [](const Tensor& x, const std::vector<Tensor>& w) { ... });
//   Tensor y = sensitive(x, w);
//
// Inside a region the function's floating inputs are cast to that dtype, including those in vectors, arrays, pairs,
// tuples, optionals and maps (f64 and integers are not cast), and autocast is off in its body; outside it is called
// unchanged. Gradients flow through the casts. Follows torch.amp.custom_fwd(cast_inputs=...). For functions with a
// custom gradient: ops/function.h.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "amp/autocast.h"

namespace mantissa::amp {

// One argument of such a function, cast if it is floating, not f64, and on a device with an active region.
Tensor cast_argument(const Tensor& x, Dtype dtype);

namespace detail {
template <class T> concept TupleLike = requires { std::tuple_size<T>::value; };
template <class T> concept KeyedRange = requires { typename T::key_type; typename T::mapped_type; };
template <class T> concept ItemRange = !KeyedRange<T> && requires(T& t) { typename T::value_type; t.begin(); t.end(); };
template <class T> struct IsOptional : std::false_type {};
template <class T> struct IsOptional<std::optional<T>> : std::true_type {};
}  // namespace detail

// Replaces every tensor in `value` by its cast; anything else is unchanged.
template <class T> void cast_arguments(T& value, Dtype dtype) {
  if constexpr (std::is_same_v<T, Tensor>) {
    value = cast_argument(value, dtype);
  } else if constexpr (detail::IsOptional<T>::value) {
    if (value) cast_arguments(*value, dtype);
  } else if constexpr (detail::KeyedRange<T>) {
    for (auto& [key, item] : value) cast_arguments(item, dtype);
  } else if constexpr (detail::ItemRange<T>) {  // includes strings, whose characters are skipped
    if constexpr (!std::is_arithmetic_v<typename T::value_type>) for (auto& item : value) cast_arguments(item, dtype);
  } else if constexpr (detail::TupleLike<T>) {
    std::apply([&](auto&... item) { (cast_arguments(item, dtype), ...); }, value);
  }
}

template <class F> auto custom_fwd(Dtype cast_inputs, F f) {
  check(is_floating(cast_inputs), "custom_fwd: cast_inputs must be a floating dtype, got ", cast_inputs);
  return [f = std::move(f), cast_inputs]<class... A>(A&&... arguments) -> decltype(auto) {
    if (!is_enabled(cpu) && !is_enabled(cuda)) return f(std::forward<A>(arguments)...);
    std::tuple<std::decay_t<A>...> cast(std::forward<A>(arguments)...);
    cast_arguments(cast, cast_inputs);
    const Autocast off(disabled);
    return std::apply(f, std::move(cast));
  };
}

}  // namespace mantissa::amp
