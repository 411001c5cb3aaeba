// Formulas of two and of three operands (core/pointwise.h has the rules).
#pragma once

#include <limits>
#include <type_traits>

#include "core/formula.h"

namespace mantissa::pointwise {

// --- of two operands; their gradients are composed by rules in ops/ ---
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
    if constexpr (Vector<T>) {  // SIMD pow is only for ordinary numbers: no denormals, infinity, NaN, huge exponents
      using C = typename T::value_type;
      // Exponents that need only a few operations: the same in every lane, or 0 (as in lanes past the end of a run).
      const auto all_are = [&](double e) { return all((b == T(C(e))) | (b == T(0))); };
      const auto some_are = [&](double e, const T& v, const T& other) { return select(b == T(C(e)), v, other); };
      if (all_are(2)) return some_are(2, a * a, T(1));
      if (all_are(3)) return some_are(3, a * a * a, T(1));
      if (all_are(-1)) return some_are(-1, T(1) / a, T(1));
      constexpr C infinity = std::numeric_limits<C>::infinity();
      const T root = select(a == T(-infinity), T(infinity), sqrt(a + T(0)));  // gives 0 for -0
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
  MANTISSA_F f(T a, T b) const { return select(a == a, select(a > b, a, b), a); }  // propagates NaN of either
};
struct Minimum : Formula {
  static constexpr auto name = "minimum"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const { return select(a == a, select(a < b, a, b), a); }
};
struct Eq : Comparison {
  static constexpr auto name = "eq";
  MANTISSA_F f(T a, T b) const { return select(a == b, T(1), T(0)); }
};
// xsimd's != is wrongly false for NaN on AVX
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
  MANTISSA_F f(T a, T b) const { return exact_atan2(a, b); }
};
struct Hypot : Formula {  // without intermediate overflow; infinite if either is, even with NaN
  static constexpr auto name = "hypot";
  MANTISSA_F f(T a, T b) const {
    const T infinity(std::numeric_limits<double>::infinity()), x = abs(a), y = abs(b);
    const T large = select(x > y, x, y), small = select(x > y, y, x), ratio = small / large;
    const T length = select(large == T(0), x + y, large * sqrt(T(1) + ratio * ratio));
    return select(x == infinity, x, select(y == infinity, y, length));
  }
};
struct Copysign : Formula {  // a NaN counts as positive: the sign of a computed NaN is meaningless
  static constexpr auto name = "copysign"; static constexpr Result result = Result::floating;
  MANTISSA_F f(T a, T b) const { return copysign(a, select(b == b, b, T(1))); }
};
struct LogAddExp : Formula {
  static constexpr auto name = "logaddexp";
  MANTISSA_F f(T a, T b) const {
    const T large = select(a < b, b, a), small = select(a < b, a, b);
    return large + log1p(exp(select(a == b, T(0), small - large)));  // equal infinities: difference 0
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
struct Remainder : Formula {  // sign of b, as in Python
  static constexpr auto name = "remainder"; static constexpr bool integers = true;
  MANTISSA_F f(T a, T b) const {
    T m = exact_fmod(a, b);
    return select(b < T(0), select(m > T(0), m + b, m), select(m < T(0), m + b, m));
  }
};
// Rounded down. Computed from fmod's remainder, so that a quotient that was rounded up to an integer is still right.
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
// smooth_l1_loss and huber_loss per element: quadratic up to a distance of `edge`, beyond it linear with slope `slope`,
// continuous at the edge.
struct RoundedDistance : Formula {
  static constexpr auto name = "rounded_distance";
  double edge = 1, slope = 1;
  MANTISSA_F f(T x, T target) const {
    T d = abs(x - target);
    return select(d < T(edge), T(0.5 * slope / edge) * (d * d), T(slope) * (d - T(0.5 * edge)));
  }
};
// Nonzero is true, NaN too.
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

// --- of three operands ---
struct Where : Formula {
  static constexpr auto name = "where"; static constexpr bool integers = true;
  MANTISSA_F f(T c, T a, T b) const { return select(c != T(0), a, b); }
};

struct RoundedDistanceGrad : Formula {  // with respect to x; the gradient of target is its negative
  static constexpr auto name = "rounded_distance_grad";
  double edge = 1, slope = 1;
  MANTISSA_F f(T g, T x, T target) const {
    T d = x - target, s = T(slope), steep = select(d > T(0), s, select(d < T(0), T(0) - s, d));  // propagates NaN
    return g * select(abs(d) < T(edge), T(slope / edge) * d, steep);
  }
};
struct Lerp : Formula {  // computed from the nearer end, so that both ends are exact
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

}  // namespace mantissa::pointwise
