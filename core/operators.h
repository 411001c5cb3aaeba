// C++ spellings of Python operators that core/ops.h has only as named functions: % & | ^ ~ << >> and comparisons to
// build masks, (x > 0) & (x < 1); mm; and functions with numbers in place of tensors: maximum(x, 0), eq(ids, pad).
// There is deliberately no += etc.: Python's writes into the tensor, which is not recorded here, and one that created a
// new tensor would not be visible through other handles, so a program has to say which of the two it wants.
#pragma once

#include <concepts>
#include <type_traits>

#include "core/ops.h"
#include "core/ops_numeric.h"
#include "core/random.h"

namespace mantissa {

inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }  // the sign of b, as Python's
Tensor operator%(const Tensor& a, Number auto b) { return remainder(a, Tensor(b)); }
Tensor operator%(Number auto a, const Tensor& b) { return remainder(Tensor(a), b); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }  // integers and bool
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
Tensor operator&(const Tensor& a, std::integral auto b) { return bitwise_and(a, Tensor(b)); }
Tensor operator|(const Tensor& a, std::integral auto b) { return bitwise_or(a, Tensor(b)); }
Tensor operator^(const Tensor& a, std::integral auto b) { return bitwise_xor(a, Tensor(b)); }
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }
inline Tensor operator<<(const Tensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
inline Tensor operator>>(const Tensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }
Tensor operator<<(const Tensor& a, std::integral auto b) { return bitwise_left_shift(a, Tensor(b)); }
Tensor operator>>(const Tensor& a, std::integral auto b) { return bitwise_right_shift(a, Tensor(b)); }

inline Tensor mm(const Tensor& a, const Tensor& b) { return a.mm(b); }  // two matrices only, unlike matmul

// Two-operand functions with a number in place of one operand: maximum(x, 0), eq(ids, pad), sub(1, x).
#define MANTISSA_NUMBER_ARGUMENT(name)                                                \
  Tensor name(const Tensor& a, Number auto b) { return name(a, Tensor(b)); }           \
  Tensor name(Number auto a, const Tensor& b) { return name(Tensor(a), b); }
MANTISSA_NUMBER_ARGUMENT(add)
MANTISSA_NUMBER_ARGUMENT(sub)
MANTISSA_NUMBER_ARGUMENT(mul)
MANTISSA_NUMBER_ARGUMENT(div)
MANTISSA_NUMBER_ARGUMENT(floor_divide)
MANTISSA_NUMBER_ARGUMENT(remainder)
MANTISSA_NUMBER_ARGUMENT(fmod)
MANTISSA_NUMBER_ARGUMENT(maximum)
MANTISSA_NUMBER_ARGUMENT(minimum)
MANTISSA_NUMBER_ARGUMENT(eq)
MANTISSA_NUMBER_ARGUMENT(ne)
MANTISSA_NUMBER_ARGUMENT(lt)
MANTISSA_NUMBER_ARGUMENT(le)
MANTISSA_NUMBER_ARGUMENT(gt)
MANTISSA_NUMBER_ARGUMENT(ge)
#undef MANTISSA_NUMBER_ARGUMENT
Tensor where(const Tensor& condition, const Tensor& a, Number auto b) { return where(condition, a, Tensor(b)); }
Tensor where(const Tensor& condition, Number auto a, const Tensor& b) { return where(condition, Tensor(a), b); }
// Two numbers give i64, bool or f32, as in PyTorch: where(p > 0.5, 1, 0) has i64 class indices, where(x > 0, 1.0, 0.5)
// f32.
Tensor where(const Tensor& condition, Number auto a, Number auto b) { return where(condition, Tensor(a), Tensor(b)); }
Tensor lerp(const Tensor& start, const Tensor& end, Number auto weight) { return lerp(start, end, Tensor(weight)); }

inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
inline Tensor clip(const Tensor& x, double low, double high) { return clamp(x, low, high); }
// Parts of the given sizes; split(x, 2) makes parts of size 2.
inline std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes, int dim = 0) {
  return split(x, Dims(sizes), dim);
}
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors, std::string_view indexing = "ij") {
  return meshgrid(std::span(tensors.begin(), tensors.size()), indexing);
}
template <std::derived_from<Tensor>... T> requires(sizeof...(T) > 0)
Tensor einsum(std::string_view equation, const T&... tensors) {
  return einsum(equation, {static_cast<const Tensor&>(tensors)...});
}
inline Tensor randint(std::int64_t high, const Dims& sizes, TensorOptions options = {}) {
  return randint(0, high, sizes, options);  // [0, high)
}
// Dtypes as for a list: floating numbers give f32, also from a std::vector<double>, unless {.dtype = f64} is given.
template <detail::ListedAlone T> Tensor tensor(T number, TensorOptions options = {}) {
  const bool requires_grad = std::exchange(options.requires_grad, false);  // the result is a leaf
  Tensor x = tensor({number}, options).reshape({});
  return requires_grad ? x.requires_grad_() : x;
}
template <detail::ListedAlone T> requires(!std::same_as<T, bool>)
Tensor tensor(const std::vector<T>& values, TensorOptions options = {}) {
  const Dtype dtype = options.dtype.or_else(detail::listed_dtype<T>);
  Tensor x = from_data(values, {static_cast<std::int64_t>(values.size())}).to(dtype).to(options.device);
  return options.requires_grad ? x.requires_grad_() : x;
}

// Compile-time errors; the message says what to write instead.
#define MANTISSA_NO_ASSIGNMENT(op, recorded, in_place)                                             \
  template <class T, class U> requires std::derived_from<std::remove_cvref_t<T>, Tensor>           \
  void operator op(T&&, const U&) {                                                                \
    static_assert(!std::same_as<T, T>,                                                             \
                  "a Tensor has no " #op ": write " recorded ", which is recorded, or " in_place); \
  }
MANTISSA_NO_ASSIGNMENT(+=, "x = x + y", "x.add_(y), which writes into x and is not")
MANTISSA_NO_ASSIGNMENT(-=, "x = x - y", "x.sub_(y), which writes into x and is not")
MANTISSA_NO_ASSIGNMENT(*=, "x = x * y", "x.mul_(y), which writes into x and is not")
MANTISSA_NO_ASSIGNMENT(/=, "x = x / y", "x.copy_(x / y), which writes into x and is not")
#undef MANTISSA_NO_ASSIGNMENT

}  // namespace mantissa
