// The formulas of all elementwise operators. A formula is written once, over T, and instantiated
// for SIMD vectors (CPU kernels), scalars (device kernels) and Tensor (second derivatives).
//
// Rules: use T(number) for constants, select(condition, a, b) instead of ?:, and the unqualified
// functions exp, log, ... Kernels load any dtype, compute in f32 (f64 for f64, i64 for integers
// where a formula says `integers`) and round once when storing.
//
// A unary formula's derivative is df(g, x) or df(g, y), as `saves` says: the gradient g times the
// derivative, in one fused kernel. To add an operator: a struct here, its name in PointwiseFormulas,
// a line in core/ops.h and a line in ops/pointwise.cpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#define MANTISSA_HD __host__ __device__
#else
#define MANTISSA_HD
#endif

namespace mantissa {

// Compile-time list of types.
template <class... F> struct List { static constexpr int size = sizeof...(F); };
template <class F, class... L> constexpr int index_in(List<L...>) {
  int i = 0, at = -1;
  ((std::is_same_v<F, L> ? void(at = i) : void(), ++i), ...);
  return at;
}

namespace pointwise {

// Scalar versions of what formulas call; vectors and tensors are found by their namespace.
#define MANTISSA_SCALAR(T)                                                                     \
  MANTISSA_HD inline T exp(T x) { return std::exp(x); }                                        \
  MANTISSA_HD inline T log(T x) { return std::log(x); }                                        \
  MANTISSA_HD inline T sqrt(T x) { return std::sqrt(x); }                                      \
  MANTISSA_HD inline T tanh(T x) { return std::tanh(x); }                                      \
  MANTISSA_HD inline T erf(T x) { return std::erf(x); }                                        \
  MANTISSA_HD inline T pow(T a, T b) { return std::pow(a, b); }                                \
  MANTISSA_HD inline T abs(T x) { return std::abs(x); }                                        \
  MANTISSA_HD inline T select(bool c, T a, T b) { return c ? a : b; }
MANTISSA_SCALAR(float)
MANTISSA_SCALAR(double)
#undef MANTISSA_SCALAR
MANTISSA_HD inline std::int64_t select(bool c, std::int64_t a, std::int64_t b) { return c ? a : b; }
MANTISSA_HD inline std::int64_t abs(std::int64_t x) { return x < 0 ? -x : x; }

enum class Result : std::uint8_t { promoted, boolean, floating };  // floating: integers give f32
enum class Saves : std::uint8_t { nothing, input, output };

struct Formula {  // defaults of the fields below
  static constexpr Result result = Result::promoted;
  static constexpr Saves saves = Saves::nothing;
  static constexpr bool integers = false;  // also computes in i64
};
#define MANTISSA_F template <class T> MANTISSA_HD T

// --- binary (their gradients are rules in ops/pointwise.cpp) ---
struct Add : Formula { static constexpr auto name = "add"; static constexpr bool integers = true; MANTISSA_F f(T a, T b) const { return a + b; } };
struct Sub : Formula { static constexpr auto name = "sub"; static constexpr bool integers = true; MANTISSA_F f(T a, T b) const { return a - b; } };
struct Mul : Formula { static constexpr auto name = "mul"; static constexpr bool integers = true; MANTISSA_F f(T a, T b) const { return a * b; } };
struct Div : Formula { static constexpr auto name = "div"; static constexpr Result result = Result::floating; MANTISSA_F f(T a, T b) const { return a / b; } };
struct Pow : Formula {
  static constexpr auto name = "pow"; static constexpr Result result = Result::floating;
  MANTISSA_F f(T a, T b) const {  // the vector pow knows neither x^0 = 1 nor 0^-1 = inf
    T p = pow(a, b);
    return select(b == T(0), T(1), select(b < T(0), select(a == T(0), T(1) / abs(a), p), p));
  }
};
struct Maximum : Formula {
  static constexpr auto name = "maximum"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const { return select(a == a, select(a > b, a, b), a); }  // NaN in either wins
};
struct Minimum : Formula {
  static constexpr auto name = "minimum"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const { return select(a == a, select(a < b, a, b), a); }
};
struct Comparison : Formula { static constexpr Result result = Result::boolean; static constexpr bool integers = true; };
struct Eq : Comparison { static constexpr auto name = "eq"; MANTISSA_F f(T a, T b) const { return select(a == b, T(1), T(0)); } };
struct Ne : Comparison { static constexpr auto name = "ne"; MANTISSA_F f(T a, T b) const { return select(a == b, T(0), T(1)); } };  // xsimd's != is false for NaN on AVX
struct Lt : Comparison { static constexpr auto name = "lt"; MANTISSA_F f(T a, T b) const { return select(a < b, T(1), T(0)); } };
struct Le : Comparison { static constexpr auto name = "le"; MANTISSA_F f(T a, T b) const { return select(a <= b, T(1), T(0)); } };
struct Gt : Comparison { static constexpr auto name = "gt"; MANTISSA_F f(T a, T b) const { return select(a > b, T(1), T(0)); } };
struct Ge : Comparison { static constexpr auto name = "ge"; MANTISSA_F f(T a, T b) const { return select(a >= b, T(1), T(0)); } };

// --- ternary ---
struct Where : Formula { static constexpr auto name = "where"; static constexpr bool integers = true; MANTISSA_F f(T c, T a, T b) const { return select(c != T(0), a, b); } };

// --- unary ---
struct Neg : Formula {
  static constexpr auto name = "neg"; static constexpr bool integers = true;
  MANTISSA_F f(T x) const { return x * T(-1); }  // -0 for 0, where a vector's -x computes 0 - x
  MANTISSA_F df(T g, T) const { return g * T(-1); }
};
struct Abs : Formula {
  static constexpr auto name = "abs"; static constexpr Saves saves = Saves::input; static constexpr bool integers = true;
  MANTISSA_F f(T x) const { return abs(x); }
  MANTISSA_F df(T g, T x) const { return select(x > T(0), g, select(x < T(0), -g, T(0) * g)); }
};
struct Square : Formula {
  static constexpr auto name = "square"; static constexpr Saves saves = Saves::input; static constexpr bool integers = true;
  MANTISSA_F f(T x) const { return x * x; }
  MANTISSA_F df(T g, T x) const { return g * (x + x); }
};
struct Floating : Formula { static constexpr Result result = Result::floating; };
struct Sqrt : Floating {
  static constexpr auto name = "sqrt"; static constexpr Saves saves = Saves::output;
  MANTISSA_F f(T x) const { return sqrt(x); }
  MANTISSA_F df(T g, T y) const { return g / (y + y); }
};
struct Rsqrt : Floating {
  static constexpr auto name = "rsqrt"; static constexpr Saves saves = Saves::output;
  MANTISSA_F f(T x) const { return T(1) / sqrt(x); }
  MANTISSA_F df(T g, T y) const { return T(-0.5) * g * (y * y * y); }
};
struct Exp : Floating {
  static constexpr auto name = "exp"; static constexpr Saves saves = Saves::output;
  MANTISSA_F f(T x) const { return exp(x); }
  MANTISSA_F df(T g, T y) const { return g * y; }
};
struct Log : Floating {
  static constexpr auto name = "log"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return log(x); }
  MANTISSA_F df(T g, T x) const { return g / x; }
};
struct Tanh : Floating {
  static constexpr auto name = "tanh"; static constexpr Saves saves = Saves::output;
  MANTISSA_F f(T x) const { return tanh(x); }
  MANTISSA_F df(T g, T y) const { return g * (T(1) - y * y); }
};
struct Sigmoid : Floating {
  static constexpr auto name = "sigmoid"; static constexpr Saves saves = Saves::output;
  MANTISSA_F f(T x) const { return T(1) / (T(1) + exp(-x)); }
  MANTISSA_F df(T g, T y) const { return g * (y * (T(1) - y)); }
};
struct Erf : Floating {
  static constexpr auto name = "erf"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return erf(x); }
  MANTISSA_F df(T g, T x) const { return g * (T(1.1283791670955126) * exp(-(x * x))); }
};
struct Relu : Formula {
  static constexpr auto name = "relu"; static constexpr Saves saves = Saves::output; static constexpr bool integers = true;
  MANTISSA_F f(T x) const { return select(x < T(0), T(0), x); }  // NaN stays
  MANTISSA_F df(T g, T y) const { return select(y > T(0), g, T(0)); }
};
struct Gelu : Floating {  // x * Phi(x), Phi the normal distribution function
  static constexpr auto name = "gelu"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return x * phi(x); }
  MANTISSA_F df(T g, T x) const { return g * (phi(x) + x * T(0.3989422804014327) * exp(T(-0.5) * x * x)); }
  template <class T> MANTISSA_HD static T phi(T x) { return T(0.5) * (T(1) + erf(x * T(0.7071067811865476))); }
};
struct Silu : Floating {
  static constexpr auto name = "silu"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return x / (T(1) + exp(-x)); }
  MANTISSA_F df(T g, T x) const {
    T s = T(1) / (T(1) + exp(-x));
    return g * (s * (T(1) + x * (T(1) - s)));
  }
};
struct Clamp : Formula {
  static constexpr auto name = "clamp"; static constexpr Saves saves = Saves::input; static constexpr bool integers = true;
  double low = 0, high = 0;
  MANTISSA_F f(T x) const { return select(x < T(low), T(low), select(x > T(high), T(high), x)); }
  MANTISSA_F df(T g, T x) const { return select(x < T(low), T(0), select(x > T(high), T(0), g)); }
};

// The derivative of a unary formula as a formula of (g, saved): what backward launches.
template <class F> struct GradOf : Formula {
  F of;
  MANTISSA_F f(T g, T saved) const { return of.df(g, saved); }
};
#undef MANTISSA_F

using BinaryFormulas = List<Add, Sub, Mul, Div, Pow, Maximum, Minimum, Eq, Ne, Lt, Le, Gt, Ge>;
using UnaryFormulas = List<Neg, Abs, Square, Sqrt, Rsqrt, Exp, Log, Tanh, Sigmoid, Erf, Relu, Gelu, Silu, Clamp>;

template <class... B, class... U> auto all_formulas(List<B...>, List<U...>) -> List<B..., Where, U..., GradOf<U>...>;
// The one list that kernels are made from.
using PointwiseFormulas = decltype(all_formulas(BinaryFormulas{}, UnaryFormulas{}));

template <class F> inline constexpr int opcode = index_in<F>(PointwiseFormulas{});

}  // namespace pointwise
}  // namespace mantissa
