// For checks that a function makes before any operator runs: errors name the function and its arguments.
#pragma once

#include "ops/apply.h"
#include "ops/check_values.h"

namespace mantissa {

// Calls f() and puts "name(x: f32[2, 3])" in front of the message of any error it throws.
template <class F> auto named(const char* name, const Tensor& x, F f) {
  try {
    return f();
  } catch (Error& e) {
    const char* const args[] = {"x"};
    const Tensor* const inputs[] = {&x};
    detail::add_operator_context(e, name, args, inputs);
    throw;
  }
}
// wrap_dim(dim, x.dim()) and x.size(dim), with the function's name in errors.
inline int named_dim(const char* name, const Tensor& x, std::int64_t dim) {
  return named(name, x, [&] { return wrap_dim(dim, x.dim()); });
}
inline std::int64_t named_size(const char* name, const Tensor& x, std::int64_t dim) {
  return named(name, x, [&] { return x.size(dim); });
}
// check_all with the function's name and x in errors.
inline void named_check_all(const char* name, const Tensor& x, const Tensor& ok, const char* message) {
  named(name, x, [&] { check_all(name, ok, message); });
}

}  // namespace mantissa
