// Formulas of activation functions (core/pointwise.h has the rules).
#pragma once

#include "core/unary_formulas.h"

namespace mantissa::pointwise {

struct Prelu : Formula {
  static constexpr auto name = "prelu";
  MANTISSA_F f(T x, T w) const { return select(x > T(0), x, w * x); }
};
struct Relu : Formula {
  static constexpr auto name = "relu"; static constexpr Saves saves = Saves::output;
  static constexpr bool integers = true;
  MANTISSA_F f(T x) const { return select(x < T(0), T(0), x); }  // propagates NaN
  MANTISSA_F df(T g, T y) const { return select(y <= T(0), T(0), g); }  // where y is NaN, the gradient passes
};
struct Gelu : Floating {  // x * Phi(x), Phi the normal CDF
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
struct GeluTanh : Floating {  // Phi(x) approximated with tanh
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
  template <class T> MANTISSA_HD static T power(T x) {  // beyond 20 the quotient is 1 even in f64
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
struct Hardshrink : Formula {  // propagates NaN
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

}  // namespace mantissa::pointwise
