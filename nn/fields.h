// How a module lists its members. A module is a plain struct with one line:
//
//   struct Net {
//     nn::Linear hidden{784, 128}, out{128, 10};
//     nn::Dropout drop{.p = 0.2};
//     MANTISSA_FIELDS(hidden, out, drop)
//     Tensor operator()(const Tensor& x) const { return out(drop(relu(hidden(x)))); }
//   };
//
// Everything else - parameters, state_dict, to, train, save - is a free function over that list (nn/functions.h).
// Members are Param, Buffer, Mode, other modules, and arrays, vectors, unique_ptrs or optionals of these; their dotted
// paths are PyTorch's ("out.weight", "blocks.0.out.weight"). For modules by key use nn::ModuleDict; other containers of
// modules (map, pair, shared_ptr, ...) do not compile.
//
// Forgetting a member is a compile error if the struct is an aggregate (no constructor, no private members, no base
// class) of at most 24 members. Otherwise the first optimizer step warns on stderr about parameters that have a
// gradient but are listed nowhere (autograd/unlisted.h).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "amp/modules.h"
#include "nn/param.h"

#define MANTISSA_FIELDS(...)                                                         \
  auto mantissa_members() { return ::mantissa::nn::detail::types_of(__VA_ARGS__); } \
  void fields(::mantissa::nn::Fields& visitor) {                                    \
    visitor.list(#__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__);                          \
  }

namespace mantissa::nn {

class Fields;
template <class M> concept Module = requires(M& m, Fields& f) { m.fields(f); };

namespace detail {

// Members that hold parameters, buffers or modes, directly or nested.
template <class T> concept Range = requires(T& t) { t.begin(); t.end(); };
template <class T> struct Pointee { using type = void; };
template <class T> struct Pointee<std::unique_ptr<T>> { using type = T; };
template <class T> struct Pointee<std::optional<T>> { using type = T; };
template <class T> constexpr bool is_field() {
  using U = std::remove_cvref_t<T>;
  constexpr bool own = std::is_same_v<U, Param> || std::is_same_v<U, Buffer> || std::is_same_v<U, Mode>;
  if constexpr (own || Module<U>) return true;
  else if constexpr (std::is_same_v<U, Tensor> || std::is_same_v<U, std::string>) return false;
  else if constexpr (!std::is_void_v<typename Pointee<U>::type>) return is_field<typename Pointee<U>::type>();
  else if constexpr (std::is_array_v<U>) return is_field<std::remove_extent_t<U>>();
  else if constexpr (Range<U>) {
    using Item = std::remove_cvref_t<decltype(*std::declval<U&>().begin())>;
    if constexpr (std::is_same_v<Item, U>) return false;  // e.g. std::filesystem::path, a range of paths
    else return is_field<Item>();
  }
  else return false;
}
// Containers that are not traversed: parameters in them would be missed.
template <class T> struct HidesFields : std::false_type {};
template <class T> constexpr bool hides_fields() {
  using U = std::remove_cvref_t<T>;
  if constexpr (HidesFields<U>::value) return true;
  else if constexpr (requires { typename U::mapped_type; }) return is_field<typename U::mapped_type>();
  else if constexpr (Range<U> && !is_field<U>()) {
    using Item = std::remove_cvref_t<decltype(*std::declval<U&>().begin())>;
    if constexpr (std::is_same_v<Item, U>) return false;
    else return hides_fields<Item>();
  }
  else return false;
}
template <class T> struct HidesFields<std::shared_ptr<T>> : std::bool_constant<is_field<T>()> {};
template <class A, class B> struct HidesFields<std::pair<A, B>> : std::bool_constant<is_field<A>() || is_field<B>()> {};
template <class... T> struct HidesFields<std::tuple<T...>> : std::bool_constant<(is_field<T>() || ...)> {};
template <class... T> struct HidesFields<std::variant<T...>> : std::bool_constant<(is_field<T>() || ...)> {};

// The types of some members: all that is asked of them here, and less to compile than a tuple of references.
template <class... T> struct Types {
  static constexpr int fields() { return (static_cast<int>(is_field<T>() || hides_fields<T>()) + ... + 0); }
};
inline constexpr auto types_of = []<class... T>(T&...) { return Types<T...>(); };

// The number of members of an aggregate: the most initialisers it accepts. The conversion is never called, but clang
// requires a body where T is in an unnamed namespace.
struct Anything { template <class T> operator T() const { __builtin_unreachable(); } };
template <std::size_t> using AnythingAt = Anything;
template <class T, std::size_t... i> constexpr bool takes(std::index_sequence<i...>) {
  return requires { T{AnythingAt<i>{}...}; };
}
inline constexpr std::size_t most_members = 24;
template <class T, std::size_t n = most_members + 1> constexpr std::size_t count_members() {
  if constexpr (n == 0 || takes<T>(std::make_index_sequence<n>{})) return n;
  else return count_members<T, n - 1>();
}

// use(all members of an aggregate...)
template <class T, class Use> auto with_members(T& t, const Use& use) {
  constexpr std::size_t n = count_members<std::remove_const_t<T>>();
  static_assert(n <= most_members,
      "a module with more than 24 members cannot be checked: group some in a module of their own");
#define MANTISSA_MEMBERS(count, ...) \
  if constexpr (n == count) { auto& [__VA_ARGS__] = t; return use(__VA_ARGS__); } else
  MANTISSA_MEMBERS(1, a)
  MANTISSA_MEMBERS(2, a, b)
  MANTISSA_MEMBERS(3, a, b, c)
  MANTISSA_MEMBERS(4, a, b, c, d)
  MANTISSA_MEMBERS(5, a, b, c, d, e)
  MANTISSA_MEMBERS(6, a, b, c, d, e, f)
  MANTISSA_MEMBERS(7, a, b, c, d, e, f, g)
  MANTISSA_MEMBERS(8, a, b, c, d, e, f, g, h)
  MANTISSA_MEMBERS(9, a, b, c, d, e, f, g, h, i)
  MANTISSA_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
  MANTISSA_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
  MANTISSA_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  MANTISSA_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  MANTISSA_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, o)
  MANTISSA_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p)
  MANTISSA_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q)
  MANTISSA_MEMBERS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r)
  MANTISSA_MEMBERS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s)
  MANTISSA_MEMBERS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, u)
  MANTISSA_MEMBERS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, u, v)
  MANTISSA_MEMBERS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, u, v, w)
  MANTISSA_MEMBERS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, u, v, w, x)
  MANTISSA_MEMBERS(23, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, u, v, w, x, y)
  MANTISSA_MEMBERS(24, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, u, v, w, x, y, z)
  return use();
#undef MANTISSA_MEMBERS
}
template <class T> using MemberTypes = decltype(with_members(std::declval<T&>(), types_of));

}  // namespace detail

// False when an aggregate has a member with parameters, buffers or a mode that is not in MANTISSA_FIELDS.
template <Module M> constexpr bool lists_all_members() {
  if constexpr (std::is_aggregate_v<M> && requires(M& m) { m.mantissa_members(); }) {
    using Listed = decltype(std::declval<M&>().mantissa_members());
    return detail::MemberTypes<M>::fields() == Listed::fields();
  } else {
    return true;
  }
}
template <Module M> constexpr void check_module() {
  static_assert(lists_all_members<M>(), "a parameter or submodule is missing from MANTISSA_FIELDS(...)");
}

// The visitor. Functions over modules derive from it and override a function per kind of field.
class Fields {
 public:
  // Called by MANTISSA_FIELDS with the text "conv1, conv2" and the members.
  template <class... T> void list([[maybe_unused]] std::string_view names, T&... members) {
    (visit(next_name(names), members), ...);
  }

  // Visits one member under a name; for hand-written fields().
  template <class T> void visit(std::string_view name, T& member) {
    static_assert(detail::is_field<T>() || (std::is_class_v<T> && !std::is_same_v<T, Tensor>),
                  "MANTISSA_FIELDS(...) lists a plain value; wrap a tensor in nn::Param or nn::Buffer");
    static_assert(
        !detail::hides_fields<T>(),
        "MANTISSA_FIELDS(...) does not look into a map, pair, tuple, variant or shared_ptr: put modules into members "
        "of their own, a vector, an array, a unique_ptr, an optional or an nn::ModuleDict");
    const std::size_t length = path_.size();
    if (length > 0) path_ += '.';
    path_ += name;
    enter(member);
    path_.resize(length);
  }

  // The argument of a function over modules: a module, or a container of modules, named by index.
  template <class T> void root(T& member) { enter(member); }

  // Reports the module at the current path. Called by containers that hide their members' types.
  template <class M> void at(const M& m) { module(path_, &m, &amp::type_tag<M>); }

 protected:
  virtual ~Fields() = default;
  virtual void module(const std::string& /*path*/, const void* /*object*/, const void* /*type*/) {}
  virtual void param(const std::string& /*path*/, Param&) {}
  virtual void buffer(const std::string& /*path*/, Buffer&) {}
  virtual void mode(Mode&) {}

 private:
  template <class T> void enter(T& member) {
    if constexpr (std::is_same_v<T, Param>) param(path_, member);
    else if constexpr (std::is_same_v<T, Buffer>) buffer(path_, member);
    else if constexpr (std::is_same_v<T, Mode>) mode(member);
    else if constexpr (Module<T>) {
      check_module<T>();
      at(member);
      member.fields(*this);
    } else if constexpr (!detail::is_field<T>()) {  // a stateless layer: may be listed
    } else if constexpr (std::is_array_v<T> || detail::Range<T>) {
      std::size_t i = 0;
      for (auto& item : member) visit(std::to_string(i++), item);
    } else if constexpr (!std::is_void_v<typename detail::Pointee<T>::type>) {
      if (member) enter(*member);
    }
  }
  static std::string_view next_name(std::string_view& names) {
    const std::size_t comma = names.find(',');
    std::string_view name = names.substr(0, comma);
    names.remove_prefix(comma == names.npos ? names.size() : comma + 1);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    return name;
  }

  std::string path_;
};

}  // namespace mantissa::nn
