// Elementwise functions made of others, continued: extremes that pass over NaN, steps, angles, powers of two.
// Read first: ops/pointwise_composed.cpp.
#include <cmath>
#include <limits>
#include <numbers>

#include "core/ops_special.h"
#include "ops/compose.h"

namespace mantissa {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Ldexp {
  static constexpr auto name = "ldexp";
  static constexpr const char* args[] = {"x", "exponent"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Ldexp&, const Tensor& x, const Tensor& exponent) {
    const Tensor a = x.is_floating() ? x : cast(x, f32);
    return a * exp2(exponent.is_floating() ? exponent : cast(exponent, a.dtype()));
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 4}), s.integers({4}, -3, 4)}, Ldexp{});
    composed(s, {s.randn({3}), s.randn({3})}, Ldexp{});
    composed(s, {s.integers({3}, -5, 5), s.integers({3}, 0, 4)}, Ldexp{});
    composed_error(s, {s.randn({2}), s.randn({3})}, Ldexp{}, "do not broadcast");
  }
};

struct Mvlgamma {
  static constexpr auto name = "mvlgamma";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  int p = 1;
  static Tensor compose(const Mvlgamma& op, const Tensor& x) {
    check(op.p >= 1, "p must be at least 1, got ", op.p);
    const Tensor z = x.is_floating() ? x : cast(x, f32);
    Tensor y = lgamma(z);
    for (int j = 1; j < op.p; ++j) y = y + lgamma(z - 0.5 * j);
    return y + 0.25 * op.p * (op.p - 1) * std::log(std::numbers::pi);
  }
  static void samples(Samples& s) {
    composed(s, {s.uniform({3, 4}, 1.3, 5)}, Mvlgamma{3});
    composed(s, {s.integers({4}, 3, 9)}, Mvlgamma{2});
    composed_error(s, {s.randn({2})}, Mvlgamma{0}, "p must be at least 1, got 0");
  }
};

}  // namespace

MANTISSA_OP(Ldexp)
MANTISSA_OP(Mvlgamma)

Tensor ldexp(const Tensor& x, const Tensor& exponent) { return apply_composed(Ldexp{}, x, exponent); }
Tensor mvlgamma(const Tensor& x, int p) { return apply_composed(Mvlgamma{p}, x); }

Tensor fmax(const Tensor& a, const Tensor& b) { return where(isnan(b), a, where(isnan(a), b, maximum(a, b))); }
Tensor fmin(const Tensor& a, const Tensor& b) { return where(isnan(b), a, where(isnan(a), b, minimum(a, b))); }
Tensor heaviside(const Tensor& x, const Tensor& values) {
  check(x.dtype() == values.dtype(), "heaviside: x ", x, " and values ", values,
        " differ in dtype; cast one with to()");
  const Tensor z = x.detach();
  return where(eq(z, Tensor(0.0)), values.detach(), cast(gt(z, Tensor(0.0)), x.dtype()));
}
Tensor deg2rad(const Tensor& x) { return (x.is_floating() ? x : cast(x, f32)) * (std::numbers::pi / 180); }
Tensor rad2deg(const Tensor& x) { return (x.is_floating() ? x : cast(x, f32)) * (180 / std::numbers::pi); }
Tensor float_power(const Tensor& a, const Tensor& b) { return pow(cast(a, f64), cast(b, f64)); }
Tensor isposinf(const Tensor& x) {
  return x.is_floating() ? eq(x, Tensor(infinity)) : zeros(x.sizes(), {.dtype = boolean, .device = x.device()});
}
Tensor isneginf(const Tensor& x) {
  return x.is_floating() ? eq(x, Tensor(-infinity)) : zeros(x.sizes(), {.dtype = boolean, .device = x.device()});
}

namespace {

template <Tensor (*f)(const Tensor&, const Tensor&)> void extreme_samples(Samples& s) {
  const auto call = [](const Tensors& x) { return f(x[0], x[1]); };
  s.call({s.randn({3, 4}), s.randn({4})}, call);
  s.call({s.integers({4}, -5, 5), s.integers({4}, -5, 5)}, call);
  s.call({tensor({1, NAN, 2}, {.dtype = f64}), tensor({NAN, -3, 5}, {.dtype = f64})}, call).extreme = true;
  s.error_call({s.randn({2}), s.randn({3})}, call, "do not broadcast");
}
void heaviside_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return heaviside(x[0], x[1]); };
  s.call({cast(s.integers({3, 4}, -1, 2), f64), s.randn({4})}, f);
  s.call({s.integers({4}, -1, 2), s.integers({4}, 5, 9)}, f);
  s.error_call({s.randn({2}), s.integers({2}, 0, 2)}, f, "differ in dtype");
}
template <Tensor (*f)(const Tensor&)> void unary_samples(Samples& s) {
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return f(x[0]); });
  s.call({s.integers({4}, -5, 5)}, [](const Tensors& x) { return f(x[0]); });
}
void float_power_samples(Samples& s) {
  s.call({s.uniform({3, 4}, 0.5, 2), s.randn({4})}, [](const Tensors& x) { return float_power(x[0], x[1]); });
  s.call({s.integers({4}, 1, 5)}, [](const Tensors& x) { return float_power(x[0], 2); });
}
constexpr auto fmax_samples = &extreme_samples<fmax>, fmin_samples = &extreme_samples<fmin>;
MANTISSA_COMPOSITE(fmax, fmax_samples)
MANTISSA_COMPOSITE(fmin, fmin_samples)
MANTISSA_COMPOSITE(heaviside, heaviside_samples, .differentiable = false)
MANTISSA_COMPOSITE(deg2rad, unary_samples<deg2rad>)
MANTISSA_COMPOSITE(rad2deg, unary_samples<rad2deg>)
MANTISSA_COMPOSITE(float_power, float_power_samples)
MANTISSA_COMPOSITE(isposinf, unary_samples<isposinf>, .differentiable = false)
MANTISSA_COMPOSITE(isneginf, unary_samples<isneginf>, .differentiable = false)

}  // namespace
}  // namespace mantissa
