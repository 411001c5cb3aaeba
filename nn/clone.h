// nn::clone(net): an independent copy of a module: same structure, all tensors copied, weight tying preserved, no
// gradients. Works for aggregates of cloneable members and for anything with `clone() const`. A module with a
// constructor constructs a new one and copies its fields into it (nn/copy_fields.h):
//
//   Block clone() const { Block copy(width); nn::copy_fields(*this, copy); return copy; }
#pragma once

#include <array>
#include <typeinfo>
#include <vector>

#include "nn/functions.h"

namespace mantissa::nn {
namespace detail {

template <class T> struct ArrayOf { static constexpr std::size_t size = 0; };
template <class T, std::size_t n> struct ArrayOf<std::array<T, n>> { static constexpr std::size_t size = n; };
template <class T> concept HasClone = requires(const T& x) { { x.clone() } -> std::convertible_to<T>; };
template <class T>
concept Growing = Range<T> && requires(T& t, typename T::value_type v) { t.push_back(std::move(v)); };

// Whether clone_value<T> compiles.
template <class T> constexpr bool is_cloneable();
template <class... T> constexpr bool are_cloneable(Types<T...>) {
  return (is_cloneable<std::remove_const_t<T>>() && ...);
}
template <class T> constexpr bool is_cloneable() {
  if constexpr (std::is_base_of_v<Tensor, T> || HasClone<T>) return true;
  else if constexpr (!is_field<T>()) return std::is_copy_constructible_v<T>;
  else if constexpr (!std::is_void_v<typename Pointee<T>::type>) return is_cloneable<typename Pointee<T>::type>();
  else if constexpr (Growing<T> || (ArrayOf<T>::size > 0)) return is_cloneable<typename T::value_type>();
  else if constexpr (std::is_aggregate_v<T>) return are_cloneable(MemberTypes<const T>());
  else return false;
}
// For layers whose type is only known at run time.
[[noreturn]] void fail_clone(const std::type_info& type);

template <class T> T clone_value(const T& x) {
  if constexpr (std::is_same_v<T, Param> || std::is_same_v<T, Buffer>) {
    return nn::clone(x);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return x.defined() ? x.clone() : x;
  } else if constexpr (HasClone<T>) {
    return x.clone();
  } else if constexpr (!is_field<T>()) {
    static_assert(std::is_copy_constructible_v<T>,
        "a member of this module cannot be copied: give its type a clone() const");
    return x;
  } else if constexpr (!std::is_void_v<typename Pointee<T>::type>) {
    using U = typename Pointee<T>::type;
    if constexpr (std::is_same_v<T, std::optional<U>>) return x ? T(clone_value(*x)) : T();
    else return x ? std::unique_ptr<U>(new U(clone_value(*x))) : nullptr;
  } else if constexpr (Growing<T>) {
    T copy;
    for (const auto& item : x) copy.push_back(clone_value(item));
    return copy;
  } else if constexpr (ArrayOf<T>::size > 0) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return T{clone_value(x[i])...};
    }(std::make_index_sequence<ArrayOf<T>::size>{});
  } else if constexpr (std::is_aggregate_v<T>) {
    return with_members(x, [](const auto&... member) { return T{clone_value(member)...}; });
  } else {
    static_assert(HasClone<T>,
        "this module has a constructor or private members: give it a clone() const, such as "
        "Block clone() const { Block copy(width); nn::copy_fields(*this, copy); return copy; }");
  }
}

// Ties the parameters of `to` in the same way as those of `from`, a module of the same structure.
void repeat_ties(ModuleRef from, ModuleRef to);

}  // namespace detail

template <Module M> M clone(const M& module) {
  M copy = detail::clone_value(module);
  detail::repeat_ties(module, copy);
  return copy;
}

}  // namespace mantissa::nn
