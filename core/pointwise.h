// The formulas of all elementwise operators. A formula is written once, over T, and instantiated
// for SIMD vectors (CPU kernels), scalars (device kernels) and Tensor (second derivatives).
//
// Rules: use T(number) for constants, select(condition, a, b) instead of ?:, and the unqualified
// functions exp, log, ... (core/formula_functions.h). Kernels load any dtype, compute in f32 (f64 for f64, i64 for
// integers where a formula says `integers`) and round once when storing.
//
// A unary formula's derivative is df(g, x) or df(g, y), as `saves` says: the gradient g times the
// derivative, in one fused kernel. To add an operator: a struct here, its name in a list at the end,
// a line in core/ops.h and a line in the file of its family (ops/arithmetic.cpp, ops/rounding.cpp,
// ops/compare.cpp, ops/exponential.cpp, ops/trigonometric.cpp, ops/activation.cpp).
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/formula_functions.h"

namespace mantissa {

// Compile-time list of types.
template <class... F> struct List { static constexpr int size = sizeof...(F); };
template <class F, class... L> constexpr int index_in(List<L...>) {
  int i = 0, at = -1;
  ((std::is_same_v<F, L> ? void(at = i) : void(), ++i), ...);
  return at;
}

namespace pointwise {

enum class Result : std::uint8_t { promoted, boolean, floating };  // floating: integers give f32
enum class Saves : std::uint8_t { nothing, input, output };

struct Formula {  // defaults of the fields below
  static constexpr Result result = Result::promoted;
  static constexpr Saves saves = Saves::nothing;
  static constexpr bool integers = false;  // also computes in i64
  static constexpr bool floats = true;     // computes in f32 and f64
  static constexpr bool flat = false;      // a step function: the derivative is 0 and there is no df
};
#define MANTISSA_F template <class T> MANTISSA_HD T

// --- binary (their gradients are rules in ops/) ---
struct Add : Formula {
  static constexpr auto name = "add"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const { return a + b; }
};
struct Sub : Formula {
  static constexpr auto name = "sub"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const { return a - b; }
};
struct Mul : Formula {
  static constexpr auto name = "mul"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const { return a * b; }
};
struct Div : Formula {
  static constexpr auto name = "div"; static constexpr Result result = Result::floating;
  MANTISSA_F f(T a, T b) const { return a / b; }
};
struct Pow : Formula {
  static constexpr auto name = "pow"; static constexpr Result result = Result::floating;
  MANTISSA_F f(T a, T b) const {
    if constexpr (Vector<T>) {  // the vector pow is for ordinary numbers: no denormals, infinity, NaN, huge exponents
      using C = typename T::value_type;
      // Exponents that are a few operations, of every lane or with 0 beside them (as behind the end of a run).
      const auto all_are = [&](double e) { return all((b == T(C(e))) | (b == T(0))); };
      const auto some_are = [&](double e, const T& v, const T& other) { return select(b == T(C(e)), v, other); };
      if (all_are(2)) return some_are(2, a * a, T(1));
      if (all_are(3)) return some_are(3, a * a * a, T(1));
      if (all_are(-1)) return some_are(-1, T(1) / a, T(1));
      constexpr C infinity = std::numeric_limits<C>::infinity();
      const T root = select(a == T(-infinity), T(infinity), sqrt(a + T(0)));  // 0 for -0
      if (all_are(0.5)) return some_are(0.5, root, T(1));
      const T low(std::numeric_limits<C>::min()), high(std::numeric_limits<C>::max() / 4), largest(4194304);
      const auto some_power = abs(b) >= low && abs(b) <= largest;
      const auto plain = some_power && ((abs(a) >= low && abs(a) <= high) || (a == T(0) && b > T(0)));
      const T half = T(0.5) * b, zero = select(half - floor(half) == T(0.5), a, T(0));  // -0 for odd b
      const T p = select(a == T(0), zero, pow(a, b));
      const T power = all(plain) ? p : select(plain, p, exact_pow(a, b));
      return some_are(2, a * a, some_are(3, a * a * a, some_are(-1, T(1) / a, some_are(0.5, root, power))));
    } else {
      return pow(a, b);
    }
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
struct Comparison : Formula {
  static constexpr Result result = Result::boolean;
  static constexpr bool integers = true;
};
struct Eq : Comparison {
  static constexpr auto name = "eq";
  MANTISSA_F f(T a, T b) const { return select(a == b, T(1), T(0)); }
};
// xsimd's != is false for NaN on AVX
struct Ne : Comparison {
  static constexpr auto name = "ne";
  MANTISSA_F f(T a, T b) const { return select(a == b, T(0), T(1)); }
};
struct Lt : Comparison {
  static constexpr auto name = "lt";
  MANTISSA_F f(T a, T b) const { return select(a < b, T(1), T(0)); }
};
struct Le : Comparison {
  static constexpr auto name = "le";
  MANTISSA_F f(T a, T b) const { return select(a <= b, T(1), T(0)); }
};
struct Gt : Comparison {
  static constexpr auto name = "gt";
  MANTISSA_F f(T a, T b) const { return select(a > b, T(1), T(0)); }
};
struct Ge : Comparison {
  static constexpr auto name = "ge";
  MANTISSA_F f(T a, T b) const { return select(a >= b, T(1), T(0)); }
};

struct Atan2 : Formula {
  static constexpr auto name = "atan2"; static constexpr Result result = Result::floating;
  MANTISSA_F f(T a, T b) const {
    if constexpr (Vector<T>) {
      if constexpr (sizeof(typename T::value_type) == 4) return atan2_by_octants(a, b);
    }
    return exact_atan2(a, b);
  }
};
struct Hypot : Formula {  // without overflow on the way; infinite beside NaN, too
  static constexpr auto name = "hypot";
  MANTISSA_F f(T a, T b) const {
    const T infinity(std::numeric_limits<double>::infinity()), x = abs(a), y = abs(b);
    const T large = select(x > y, x, y), small = select(x > y, y, x), ratio = small / large;
    const T length = select(large == T(0), x + y, large * sqrt(T(1) + ratio * ratio));
    return select(x == infinity, x, select(y == infinity, y, length));
  }
};
struct Copysign : Formula {  // a NaN is positive: the sign of a computed one says nothing
  static constexpr auto name = "copysign"; static constexpr Result result = Result::floating;
  MANTISSA_F f(T a, T b) const { return copysign(a, select(b == b, b, T(1))); }
};
struct LogAddExp : Formula {
  static constexpr auto name = "logaddexp";
  MANTISSA_F f(T a, T b) const {
    const T large = select(a < b, b, a), small = select(a < b, a, b);
    return large + log1p(exp(select(a == b, T(0), small - large)));  // equal infinities are 0 apart
  }
};
struct LogAddExp2 : Formula {
  static constexpr auto name = "logaddexp2";
  MANTISSA_F f(T a, T b) const {
    const T large = select(a < b, b, a), small = select(a < b, a, b);
    return large + T(1.4426950408889634) * log1p(exp2(select(a == b, T(0), small - large)));
  }
};
struct Fmod : Formula {
  static constexpr auto name = "fmod"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const { return exact_fmod(a, b); }
};
struct Remainder : Formula {  // the sign of b, as in Python
  static constexpr auto name = "remainder"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const {
    T m = exact_fmod(a, b);
    return select(b < T(0), select(m > T(0), m + b, m), select(m < T(0), m + b, m));
  }
};
// Rounded down. From what fmod leaves, so that a quotient that was rounded up to an integer does not count.
struct FloorDivide : Formula {
  static constexpr auto name = "floor_divide"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return floor_quotient(a, b);
    } else {
      T rest = exact_fmod(a, b), whole = nearbyint((a - rest) / b), lower = whole - T(1);
      T below = select(b < T(0), whole, lower), above = select(b < T(0), lower, whole);
      T quotient = select(rest < T(0), below, select(rest > T(0), above, whole));
      return select(b == T(0), a / b, quotient);
    }
  }
};
struct Prelu : Formula {
  static constexpr auto name = "prelu";
  MANTISSA_F f(T x, T w) const { return select(x > T(0), x, w * x); }
};
// smooth_l1_loss and huber_loss of each element: a parabola up to a distance of `edge`, there and beyond a line of
// slope `slope`, which goes on from it.
struct RoundedDistance : Formula {
  static constexpr auto name = "rounded_distance";
  double edge = 1, slope = 1;
  MANTISSA_F f(T x, T target) const {
    T d = abs(x - target);
    return select(d < T(edge), T(0.5 * slope / edge) * (d * d), T(slope) * (d - T(0.5 * edge)));
  }
};
// Anything but 0 is true, NaN too.
struct LogicalAnd : Comparison {
  static constexpr auto name = "logical_and";
  MANTISSA_F f(T a, T b) const { return select(a == T(0), T(0), select(b == T(0), T(0), T(1))); }
};
struct LogicalOr : Comparison {
  static constexpr auto name = "logical_or";
  MANTISSA_F f(T a, T b) const { return select(a == T(0), select(b == T(0), T(0), T(1)), T(1)); }
};
struct LogicalXor : Comparison {
  static constexpr auto name = "logical_xor";
  MANTISSA_F f(T a, T b) const {
    return select(a == T(0), select(b == T(0), T(0), T(1)), select(b == T(0), T(1), T(0)));
  }
};
struct Bitwise : Formula { static constexpr bool integers = true, floats = false; };
struct BitwiseAnd : Bitwise {
  static constexpr auto name = "bitwise_and";
  MANTISSA_F f(T a, T b) const { return a & b; }
};
struct BitwiseOr : Bitwise {
  static constexpr auto name = "bitwise_or";
  MANTISSA_F f(T a, T b) const { return a | b; }
};
struct BitwiseXor : Bitwise {
  static constexpr auto name = "bitwise_xor";
  MANTISSA_F f(T a, T b) const { return a ^ b; }
};

// --- ternary ---
struct Where : Formula {
  static constexpr auto name = "where"; static constexpr bool integers = true;
  MANTISSA_F f(T c, T a, T b) const { return select(c != T(0), a, b); }
};

struct RoundedDistanceGrad : Formula {  // of x; that of the target is its negative
  static constexpr auto name = "rounded_distance_grad";
  double edge = 1, slope = 1;
  MANTISSA_F f(T g, T x, T target) const {
    T d = x - target, s = T(slope), steep = select(d > T(0), s, select(d < T(0), T(0) - s, d));  // NaN stays
    return g * select(abs(d) < T(edge), T(slope / edge) * d, steep);
  }
};
struct Lerp : Formula {  // from the nearer end, so that both are met exactly
  static constexpr auto name = "lerp";
  MANTISSA_F f(T start, T end, T weight) const {
    T way = end - start;
    return select(abs(weight) < T(0.5), start + weight * way, end - way * (T(1) - weight));
  }
};
struct Addcmul : Formula {
  static constexpr auto name = "addcmul"; static constexpr bool integers = true;
  double value = 1;
  MANTISSA_F f(T x, T a, T b) const { return x + T(value) * (a * b); }
};
struct Addcdiv : Formula {
  static constexpr auto name = "addcdiv";
  double value = 1;
  MANTISSA_F f(T x, T a, T b) const { return x + T(value) * (a / b); }
};

// --- unary ---
struct Neg : Formula {
  static constexpr auto name = "neg"; static constexpr bool integers = true;
  MANTISSA_F f(T x) const { return x * T(-1); }  // -0 for 0, where a vector's -x computes 0 - x
  MANTISSA_F df(T g, T) const { return g * T(-1); }
};
struct Abs : Formula {
  static constexpr auto name = "abs"; static constexpr Saves saves = Saves::input;
  static constexpr bool integers = true;
  MANTISSA_F f(T x) const { return abs(x); }
  MANTISSA_F df(T g, T x) const { return select(x > T(0), g, select(x < T(0), -g, T(0) * g)); }
};
struct Square : Formula {
  static constexpr auto name = "square"; static constexpr Saves saves = Saves::input;
  static constexpr bool integers = true;
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
  MANTISSA_F f(T x) const { return bounded_erf(x); }
  MANTISSA_F df(T g, T x) const { return g * (T(1.1283791670955126) * exp(-(x * x))); }
};
struct Relu : Formula {
  static constexpr auto name = "relu"; static constexpr Saves saves = Saves::output;
  static constexpr bool integers = true;
  MANTISSA_F f(T x) const { return select(x < T(0), T(0), x); }  // NaN stays
  MANTISSA_F df(T g, T y) const { return select(y <= T(0), T(0), g); }  // where y is NaN, the gradient goes on
};
struct Gelu : Floating {  // x * Phi(x), Phi the normal distribution function
  static constexpr auto name = "gelu"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const {
    if constexpr (has_vector_normal_cdf<T>) return x * normal_cdf(x);
    else return x * phi(x);
  }
  MANTISSA_F df(T g, T x) const {
    const T density = exp(T(-0.5) * x * x);
    if constexpr (has_vector_normal_cdf<T>) return g * (normal_cdf(x, density) + x * T(0.3989422804014327) * density);
    else return g * (phi(x) + x * T(0.3989422804014327) * density);
  }
  template <class T> MANTISSA_HD static T phi(T x) { return T(0.5) * (T(1) + bounded_erf(x * T(0.7071067811865476))); }
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
  static constexpr auto name = "clamp"; static constexpr Saves saves = Saves::input;
  static constexpr bool integers = true;
  double low = 0, high = 0;
  MANTISSA_F f(T x) const { return select(x < T(low), T(low), select(x > T(high), T(high), x)); }
  // 0 at the ends and for NaN
  MANTISSA_F df(T g, T x) const { return select(x > T(low), select(x < T(high), g, T(0)), T(0)); }
};

// --- unary, exponentials and logarithms ---
struct Exp2 : Floating {
  static constexpr auto name = "exp2"; static constexpr Saves saves = Saves::output;
  MANTISSA_F f(T x) const { return exp2(x); }
  MANTISSA_F df(T g, T y) const { return g * (y * T(0.6931471805599453)); }
};
struct Expm1 : Floating {
  static constexpr auto name = "expm1"; static constexpr Saves saves = Saves::output;
  MANTISSA_F f(T x) const { return signed_expm1(x); }
  MANTISSA_F df(T g, T y) const { return g * (y + T(1)); }
};
struct Log1p : Floating {
  static constexpr auto name = "log1p"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return select(x == T(0), x, log1p(x)); }  // -0 for -0
  MANTISSA_F df(T g, T x) const { return g / (x + T(1)); }
};
struct Log2 : Floating {
  static constexpr auto name = "log2"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return log2(x); }
  MANTISSA_F df(T g, T x) const { return g / (x * T(0.6931471805599453)); }
};
struct Log10 : Floating {
  static constexpr auto name = "log10"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return log10(x); }
  MANTISSA_F df(T g, T x) const { return g / (x * T(2.302585092994046)); }
};
struct Erfc : Floating {
  static constexpr auto name = "erfc"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return exact_erfc(x); }
  MANTISSA_F df(T g, T x) const { return g * (T(-1.1283791670955126) * exp(-(x * x))); }
};
struct Erfinv : Floating {
  static constexpr auto name = "erfinv"; static constexpr Saves saves = Saves::output;
  // Winitzki's closed form is right to 2e-3; each of Halley's steps triples the digits.
  MANTISSA_F f(T x) const {
    if constexpr (Vector<T>) {
      if constexpr (sizeof(typename T::value_type) == 4) return fitted_erfinv(x);
    }
    T a = abs(x), l = log((T(1) - a) * (T(1) + a)), t = T(4.330746750799873) + T(0.5) * l;
    T square = sqrt(t * t - T(6.802721088435374) * l) - t;
    T y = sqrt(select(square > T(0), square, T(0)));
    for (int i = 0; i < 3; ++i) {
      T error = select(a < T(0.5), erf(y) - a, (T(1) - a) - erfc(y));
      T u = error / (T(1.1283791670955126) * exp(-(y * y)));
      y = y - u / (T(1) + y * u);
    }
    y = select(a < T(1), y, T(1) / (T(1) - a) + T(0) * sqrt(T(1) - a));  // infinite at 1, NaN beyond
    return select(x == T(0), x, select(x < T(0), -y, y));
  }
  MANTISSA_F df(T g, T y) const { return g * (T(0.8862269254527580) * exp(y * y)); }
};
// log(x / (1 - x)). eps: x is clamped to [eps, 1 - eps]; below 0: it is not, and has no result outside [0, 1].
struct Logit : Floating {
  static constexpr auto name = "logit"; static constexpr Saves saves = Saves::input;
  double eps = -1;
  MANTISSA_F f(T x) const {
    T z = x;
    if (eps >= 0) z = select(x < T(eps), T(eps), select(x > T(1 - eps), T(1 - eps), x));
    else z = select(x < T(0), T(nan), select(x > T(1), T(nan), x));
    return log(z) - log1p(T(0) - z);
  }
  MANTISSA_F df(T g, T x) const {
    const double low = eps < 0 ? 0 : eps, outside = eps < 0 ? nan : 0;
    return select(x < T(low), T(outside), select(x > T(1 - low), T(outside), g / (x * (T(1) - x))));
  }
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
};
struct Reciprocal : Floating {
  static constexpr auto name = "reciprocal"; static constexpr Saves saves = Saves::output;
  MANTISSA_F f(T x) const { return T(1) / x; }
  MANTISSA_F df(T g, T y) const { return -(g * (y * y)); }
};

// --- unary, trigonometric and hyperbolic ---
struct Sin : Floating {
  static constexpr auto name = "sin"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return sin(x); }
  MANTISSA_F df(T g, T x) const { return g * cos(x); }
};
struct Cos : Floating {
  static constexpr auto name = "cos"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return cos(x); }
  MANTISSA_F df(T g, T x) const { return -(g * sin(x)); }
};
struct Tan : Floating {
  static constexpr auto name = "tan"; static constexpr Saves saves = Saves::output;
  MANTISSA_F f(T x) const { return tan(x); }
  MANTISSA_F df(T g, T y) const { return g * (T(1) + y * y); }
};
struct Asin : Floating {
  static constexpr auto name = "asin"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return asin(x); }
  MANTISSA_F df(T g, T x) const { return g / sqrt((T(1) - x) * (T(1) + x)); }
};
struct Acos : Floating {
  static constexpr auto name = "acos"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return acos(x); }
  MANTISSA_F df(T g, T x) const { return -(g / sqrt((T(1) - x) * (T(1) + x))); }
};
struct Atan : Floating {
  static constexpr auto name = "atan"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return atan(x); }
  MANTISSA_F df(T g, T x) const { return g / (T(1) + x * x); }
};
struct Sinh : Floating {
  static constexpr auto name = "sinh"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return sinh(x); }
  MANTISSA_F df(T g, T x) const { return g * cosh(x); }
};
struct Cosh : Floating {
  static constexpr auto name = "cosh"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return cosh(x); }
  MANTISSA_F df(T g, T x) const { return g * sinh(x); }
};
struct Asinh : Floating {
  static constexpr auto name = "asinh"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return asinh(x); }
  MANTISSA_F df(T g, T x) const { return g / sqrt(x * x + T(1)); }
};
struct Acosh : Floating {
  static constexpr auto name = "acosh"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return select(x < T(1), sqrt(T(-1)), acosh(x)); }
  MANTISSA_F df(T g, T x) const { return g / sqrt(x * x - T(1)); }
};
struct Atanh : Floating {
  static constexpr auto name = "atanh"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return atanh(x); }
  MANTISSA_F df(T g, T x) const { return g / ((T(1) - x) * (T(1) + x)); }
};

// --- unary, activations ---
struct GeluTanh : Floating {  // Phi(x) by tanh
  static constexpr auto name = "gelu_tanh"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return T(0.5) * x * (T(1) + tanh(inner(x))); }
  MANTISSA_F df(T g, T x) const {
    T t = tanh(inner(x)), slope = T(0.7978845608028654) * (T(1) + T(0.134145) * (x * x));
    return g * (T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * slope);
  }
  template <class T> MANTISSA_HD static T inner(T x) { return T(0.7978845608028654) * (x + T(0.044715) * (x * x * x)); }
};
struct Softplus : Floating {  // log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold
  static constexpr auto name = "softplus"; static constexpr Saves saves = Saves::input;
  double beta = 1, threshold = 20;
  MANTISSA_F f(T x) const {
    T z = x * T(beta);
    return select(z > T(threshold), x, log1p(exp(z)) / T(beta));
  }
  MANTISSA_F df(T g, T x) const {
    T z = x * T(beta);
    return select(z > T(threshold), g, g / (T(1) + exp(-z)));
  }
};
struct Elu : Formula {  // elu, selu and celu
  static constexpr auto name = "elu"; static constexpr Saves saves = Saves::input;
  double alpha = 1, scale = 1, input_scale = 1;
  MANTISSA_F f(T x) const {
    return select(x > T(0), x * T(scale), signed_expm1(x * T(input_scale)) * T(alpha * scale));
  }
  MANTISSA_F df(T g, T x) const {
    return select(x > T(0), g * T(scale), g * (exp(x * T(input_scale)) * T(alpha * scale * input_scale)));
  }
};
struct LeakyRelu : Formula {
  static constexpr auto name = "leaky_relu"; static constexpr Saves saves = Saves::input;
  double negative_slope = 0.01;
  MANTISSA_F f(T x) const { return select(x > T(0), x, x * T(negative_slope)); }
  MANTISSA_F df(T g, T x) const { return select(x > T(0), g, g * T(negative_slope)); }
};
struct Hardtanh : Clamp { static constexpr auto name = "hardtanh"; };
struct Hardsigmoid : Formula {
  static constexpr auto name = "hardsigmoid"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return select(x < T(-3), T(0), select(x > T(3), T(1), (x + T(3)) / T(6))); }
  MANTISSA_F df(T g, T x) const { return select(x <= T(-3), T(0), select(x >= T(3), T(0), g / T(6))); }
};
struct Hardswish : Formula {  // x * hardsigmoid(x)
  static constexpr auto name = "hardswish"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return select(x < T(-3), x * T(0), select(x > T(3), x, x * (x + T(3)) / T(6))); }
  MANTISSA_F df(T g, T x) const { return select(x <= T(-3), T(0), select(x >= T(3), g, g * (x / T(3) + T(0.5)))); }
};
struct Mish : Floating {  // x * tanh(softplus(x)), where tanh(log(1 + e)) = (e * e + 2e) / (e * e + 2e + 2)
  static constexpr auto name = "mish"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const {
    T n = power(x);
    return x * (n / (n + T(2)));
  }
  MANTISSA_F df(T g, T x) const {
    T n = power(x), t = n / (n + T(2));
    return g * (t + x * (T(1) - t * t) / (T(1) + exp(-x)));
  }
  template <class T> MANTISSA_HD static T power(T x) {  // beyond 20 the quotient is 1 in f64 as well
    T e = exp(select(x > T(20), T(20), x));
    return e * (e + T(2));
  }
};
struct Logsigmoid : Floating {
  static constexpr auto name = "logsigmoid"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return select(x > T(0), T(0), x) - log1p(exp(-abs(x))); }
  MANTISSA_F df(T g, T x) const { return g / (T(1) + exp(x)); }
};

struct Softsign : Floating {
  static constexpr auto name = "softsign"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return x / (T(1) + abs(x)); }
  MANTISSA_F df(T g, T x) const {
    T d = T(1) + abs(x);
    return g / (d * d);
  }
};
struct Tanhshrink : Floating {  // x - tanh(x)
  static constexpr auto name = "tanhshrink"; static constexpr Saves saves = Saves::input;
  MANTISSA_F f(T x) const { return x - tanh(x); }
  MANTISSA_F df(T g, T x) const {
    T t = tanh(x);
    return g * (t * t);
  }
};
struct Hardshrink : Formula {  // NaN stays
  static constexpr auto name = "hardshrink"; static constexpr Saves saves = Saves::input;
  double lambd = 0.5;
  MANTISSA_F f(T x) const { return select(abs(x) <= T(lambd), T(0), x); }
  MANTISSA_F df(T g, T x) const { return select(abs(x) <= T(lambd), T(0), g); }
};
struct Softshrink : Formula {
  static constexpr auto name = "softshrink"; static constexpr Saves saves = Saves::input;
  double lambd = 0.5;
  MANTISSA_F f(T x) const { return select(x > T(lambd), x - T(lambd), select(x < T(-lambd), x + T(lambd), x * T(0))); }
  MANTISSA_F df(T g, T x) const { return select(abs(x) <= T(lambd), T(0), g); }
};
struct Threshold : Formula {
  static constexpr auto name = "threshold"; static constexpr Saves saves = Saves::input;
  static constexpr bool integers = true;
  double threshold = 0, value = 0;
  MANTISSA_F f(T x) const { return select(x <= T(threshold), T(value), x); }
  MANTISSA_F df(T g, T x) const { return select(x <= T(threshold), T(0), g); }
};

struct NanToNum : Formula {
  static constexpr auto name = "nan_to_num"; static constexpr Saves saves = Saves::input;
  double nan = 0, posinf = 0, neginf = 0;
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  MANTISSA_F f(T x) const {
    return select(x - x == T(0), x,
                  select(x == T(infinity), T(posinf), select(x == T(-infinity), T(neginf), T(nan))));
  }
  // to what is kept, an infinite element too, if it is replaced by itself
  MANTISSA_F df(T g, T x) const {
    T below = T(neginf == -infinity ? 1 : 0), above = T(posinf == infinity ? 1 : 0);
    T kept = select(x == T(infinity), above, select(x == T(-infinity), below, T(0)));
    return select(x - x == T(0), g, select(kept == T(1), g, T(0)));
  }
};

// --- unary, steps and tests ---
struct Step : Formula { static constexpr bool integers = true, flat = true; };
struct Sign : Step {
  static constexpr auto name = "sign";
  MANTISSA_F f(T x) const { return select(x > T(0), T(1), select(x < T(0), T(-1), T(0))); }
};
struct Floor : Step {
  static constexpr auto name = "floor";
  MANTISSA_F f(T x) const { return signed_zero(x, floor(x)); }
};
struct Ceil : Step { static constexpr auto name = "ceil"; MANTISSA_F f(T x) const { return signed_zero(x, ceil(x)); } };
struct Trunc : Step {
  static constexpr auto name = "trunc";
  MANTISSA_F f(T x) const { return signed_zero(x, trunc(x)); }
};
// half to even
struct Round : Step {
  static constexpr auto name = "round";
  MANTISSA_F f(T x) const { return signed_zero(x, nearbyint(x)); }
};
struct IsNan : Comparison {
  static constexpr auto name = "isnan";
  MANTISSA_F f(T x) const { return select(x == x, T(0), T(1)); }
};
struct IsInf : Comparison {
  static constexpr auto name = "isinf";
  MANTISSA_F f(T x) const { return select(x - x == T(0), T(0), select(x == x, T(1), T(0))); }
};
struct IsFinite : Comparison {
  static constexpr auto name = "isfinite";
  MANTISSA_F f(T x) const { return select(x - x == T(0), T(1), T(0)); }
};
struct SignBit : Comparison {  // of -0, too; not of NaN
  static constexpr auto name = "signbit";
  MANTISSA_F f(T x) const {
    if constexpr (std::is_integral_v<T>) return select(x < T(0), T(1), T(0));
    else return select(copysign(T(1), select(x == x, x, T(1))) < T(0), T(1), T(0));
  }
};
struct LogicalNot : Comparison {
  static constexpr auto name = "logical_not";
  MANTISSA_F f(T x) const { return select(x == T(0), T(1), T(0)); }
};
struct BitwiseNot : Bitwise { static constexpr auto name = "bitwise_not"; MANTISSA_F f(T x) const { return ~x; } };

// The derivative of a unary formula as a formula of (g, saved): what backward launches.
template <class F> struct GradOf : Formula {
  F of;
  MANTISSA_F f(T g, T saved) const { return of.df(g, saved); }
};
#undef MANTISSA_F

using BinaryFormulas = List<Add, Sub, Mul, Div, Pow, Maximum, Minimum, Eq, Ne, Lt, Le, Gt, Ge, Atan2, Hypot,
                            Copysign, LogAddExp, LogAddExp2, Fmod, Remainder, FloorDivide, Prelu, RoundedDistance,
                            LogicalAnd, LogicalOr, LogicalXor, BitwiseAnd, BitwiseOr, BitwiseXor>;
using TernaryFormulas = List<Where, RoundedDistanceGrad, Lerp, Addcmul, Addcdiv>;
// With a derivative.
using UnaryFormulas = List<Neg, Abs, Square, Sqrt, Rsqrt, Exp, Log, Tanh, Sigmoid, Erf, Relu, Gelu, Silu, Clamp,
                           Exp2, Expm1, Log1p, Log2, Log10, Erfc, Erfinv, Logit, Reciprocal,
                           Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh,
                           GeluTanh, Softplus, Elu, LeakyRelu, Hardtanh, Hardsigmoid, Hardswish, Mish, Logsigmoid,
                           Softsign, Tanhshrink, Hardshrink, Softshrink, Threshold,
                           NanToNum>;
// Without.
using StepFormulas = List<Sign, Floor, Ceil, Trunc, Round, IsNan, IsInf, IsFinite, SignBit, LogicalNot, BitwiseNot>;

template <class... B, class... T, class... S, class... U>
auto all_formulas(List<B...>, List<T...>, List<S...>, List<U...>) -> List<B..., T..., S..., U..., GradOf<U>...>;
// The one list that kernels are made from.
using PointwiseFormulas = decltype(all_formulas(BinaryFormulas{}, TernaryFormulas{}, StepFormulas{}, UnaryFormulas{}));

template <class F> inline constexpr int opcode = index_in<F>(PointwiseFormulas{});

}  // namespace pointwise
}  // namespace mantissa
