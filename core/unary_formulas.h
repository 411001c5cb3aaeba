// Formulas of one operand: arithmetic, exponentials, trigonometry, steps and tests (core/pointwise.h has the rules).
#pragma once

#include <limits>
#include <type_traits>

#include "core/formula.h"

namespace mantissa::pointwise {

// --- arithmetic and other common ones ---
struct Neg : Formula {
  static constexpr auto name = "neg"; static constexpr bool integers = true;
  MANTISSA_F f(T x) const { return x * T(-1); }  // gives -0 for 0; a SIMD vector's -x would compute 0 - x
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
struct Clamp : Formula {
  static constexpr auto name = "clamp"; static constexpr Saves saves = Saves::input;
  static constexpr bool integers = true;
  double low = 0, high = 0;
  MANTISSA_F f(T x) const { return select(x < T(low), T(low), select(x > T(high), T(high), x)); }
  // 0 at the bounds and for NaN. An infinite bound does not clamp: the gradient of an infinite x passes.
  MANTISSA_F df(T g, T x) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const T below = high == infinity ? g : select(x < T(high), g, T(0));
    return low == -infinity ? select(x == x, below, T(0)) : select(x > T(low), below, T(0));
  }
};

struct NanToNum : Formula {
  static constexpr auto name = "nan_to_num"; static constexpr Saves saves = Saves::input;
  double nan = 0, posinf = 0, neginf = 0;
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  MANTISSA_F f(T x) const {
    return select(x - x == T(0), x,
                  select(x == T(infinity), T(posinf), select(x == T(-infinity), T(neginf), T(nan))));
  }
  // passes to elements that are kept, also to an infinite one that is replaced by itself
  MANTISSA_F df(T g, T x) const {
    T below = T(neginf == -infinity ? 1 : 0), above = T(posinf == infinity ? 1 : 0);
    T kept = select(x == T(infinity), above, select(x == T(-infinity), below, T(0)));
    return select(x - x == T(0), g, select(kept == T(1), g, T(0)));
  }
};

// --- exponentials and logarithms ---
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
  // Winitzki's closed form is accurate to 2e-3; each Halley iteration triples the digits.
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
    y = select(a < T(1), y, T(1) / (T(1) - a) + T(0) * sqrt(T(1) - a));  // infinite at 1, NaN outside
    return select(x == T(0), x, select(x < T(0), -y, y));
  }
  MANTISSA_F df(T g, T y) const { return g * (T(0.8862269254527580) * exp(y * y)); }
};
// log(x / (1 - x)). eps: x is clamped to [eps, 1 - eps]; eps < 0: not clamped, NaN outside [0, 1].
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

// --- trigonometric and hyperbolic ---
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

// --- step functions and predicates ---
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
struct SignBit : Comparison {  // true for -0, false for NaN
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

}  // namespace mantissa::pointwise
