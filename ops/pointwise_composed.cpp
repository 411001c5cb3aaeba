// Elementwise functions composed of others: logaddexp, hypot-like lengths, signs, powers of two, angles, steps,
// extremes that ignore NaN, and approximate equality.
#include <cmath>
#include <limits>
#include <numbers>

#include "core/ops_special.h"
#include "core/recording.h"
#include "ops/compose.h"
#include "ops/floating.h"

namespace mantissa {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
Tensor zero() { return Tensor(0.0); }
// The dtype of `a op b` for an operator that gives a floating result for integers.
Dtype floating_dtype(const Tensor& a, const Tensor& b) {
  const Dtype d = common_dtype(a, b);
  return is_floating(d) ? d : f32;
}

struct Xlogy {
  static constexpr auto name = "xlogy";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Xlogy&, const Tensor& a, const Tensor& b) {
    // 0 where a is 0. If log(b) is finite the product is 0 by itself, and the derivative with respect to a is log(b).
    const Tensor finite = logical_and(gt(b, zero()), isfinite(b));
    const Tensor none = logical_and(eq(a, zero()), logical_not(logical_or(finite, isnan(b))));
    return where(none, zero(), a * log(cast(where(none, Tensor(1.0), b), floating_dtype(a, b))));
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5}), s.uniform({5}, 0.3, 3)}, Xlogy{});
    composed(s, {zeros({4}, {.dtype = f64}), s.uniform({4}, -1, 1)}, Xlogy{}).extreme = true;
    composed_error(s, {s.randn({2}), s.randn({3})}, Xlogy{}, "do not broadcast");
  }
};

struct Sinc {
  static constexpr auto name = "sinc";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Sinc&, const Tensor& x) {
    if (!x.is_floating()) return sinc(cast(x, f32));
    // Near 0 the derivative of sin(a) / a suffers from cancellation; that of the series is accurate.
    const Tensor angle = x * 3.141592653589793, near = lt(abs(angle), Tensor(1.0));
    const Tensor square_near = square(where(near, angle, zero())), far = where(near, Tensor(1.0), angle);
    Tensor series = ones_like(square_near);
    for (int k = 9; k >= 1; --k) series = 1.0 - square_near * series * (1.0 / (2 * k * (2 * k + 1)));
    return where(near, series, sin(far) / far);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5})}, Sinc{});
    composed(s, {zeros({3}, {.dtype = f64})}, Sinc{}).extreme = true;
    composed(s, {s.integers({4}, -2, 3)}, Sinc{});
  }
};

struct Ldexp {
  static constexpr auto name = "ldexp";
  static constexpr const char* args[] = {"x", "exponent"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Ldexp&, const Tensor& x, const Tensor& exponent) {
    const Tensor a = floating(x);
    return a * exp2(exponent.is_floating() ? exponent : cast(exponent, a.dtype()));
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 4}), s.integers({4}, -3, 4)}, Ldexp{});
    composed(s, {s.randn({3}), s.randn({3})}, Ldexp{});
    composed(s, {s.integers({3}, -5, 5), s.integers({3}, 0, 4)}, Ldexp{});
    composed_error(s, {s.randn({2}), s.randn({3})}, Ldexp{}, "do not broadcast");
  }
};

}  // namespace

MANTISSA_OP(Xlogy)
MANTISSA_OP(Sinc)
MANTISSA_OP(Ldexp)

Tensor xlogy(const Tensor& a, const Tensor& b) { return apply_composed(Xlogy{}, a, b); }
Tensor sinc(const Tensor& x) { return apply_composed(Sinc{}, x); }

Tensor clamp_min(const Tensor& x, double low) { return clamp(x, low, infinity); }
Tensor clamp_max(const Tensor& x, double high) { return clamp(x, -infinity, high); }
Tensor frac(const Tensor& x) { return sub(x, trunc(x)); }
Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  check(rtol >= 0 && atol >= 0, "isclose: rtol ", rtol, " and atol ", atol, " must not be negative");
  const auto wide = [](const Tensor& t) {
    return t.is_floating() && !is_half(t.dtype()) ? t.detach() : cast(t.detach(), is_floating(t.dtype()) ? f32 : f64);
  };
  const Tensor x = wide(a), y = wide(b);
  const Tensor near = logical_and(le(abs(x - y), abs(y) * rtol + atol), isfinite(y));
  const Tensor close = logical_or(eq(x, y), near);
  return equal_nan ? logical_or(close, logical_and(isnan(x), isnan(y))) : close;
}
bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  check_may_read("allclose", a, "its result is a bool of the host");
  return all(isclose(a, b, rtol, atol, equal_nan)).item<bool>();
}
bool equal(const Tensor& a, const Tensor& b) {
  check_may_read("equal", a, "its result is a bool of the host");
  return a.sizes() == b.sizes() && all(eq(a.detach(), b.detach())).item<bool>();
}
Tensor isin(const Tensor& x, const Tensor& values) {
  if (values.numel() == 0) return zeros(x.sizes(), {.dtype = boolean, .device = x.device()});
  const Tensor ordered = sort(flatten(values.detach()), 0).values, flat = flatten(x.detach());
  const Tensor at = clamp(searchsorted(ordered, flat), 0, static_cast<double>(values.numel() - 1));
  return reshape(eq(index_select(ordered, 0, at), flat), x.sizes());
}
Tensor ldexp(const Tensor& x, const Tensor& exponent) { return apply_composed(Ldexp{}, x, exponent); }
Tensor fmax(const Tensor& a, const Tensor& b) { return where(isnan(b), a, where(isnan(a), b, maximum(a, b))); }
Tensor fmin(const Tensor& a, const Tensor& b) { return where(isnan(b), a, where(isnan(a), b, minimum(a, b))); }
Tensor heaviside(const Tensor& x, const Tensor& values) {
  check(x.dtype() == values.dtype(), "heaviside: x ", x, " and values ", values,
        " differ in dtype; cast one with to()");
  const Tensor z = x.detach();
  return where(eq(z, Tensor(0.0)), values.detach(), cast(gt(z, Tensor(0.0)), x.dtype()));
}
Tensor deg2rad(const Tensor& x) { return floating(x) * (std::numbers::pi / 180); }
Tensor rad2deg(const Tensor& x) { return floating(x) * (180 / std::numbers::pi); }
Tensor float_power(const Tensor& a, const Tensor& b) { return pow(cast(a, f64), cast(b, f64)); }
Tensor isposinf(const Tensor& x) {
  return x.is_floating() ? eq(x, Tensor(infinity)) : zeros(x.sizes(), {.dtype = boolean, .device = x.device()});
}
Tensor isneginf(const Tensor& x) {
  return x.is_floating() ? eq(x, Tensor(-infinity)) : zeros(x.sizes(), {.dtype = boolean, .device = x.device()});
}

namespace {

void clamp_min_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return clamp_min(x[0], 0.25); };
  s.call({s.randn({3, 4})}, f);
  s.call({s.integers({4}, -5, 5)}, [](const Tensors& x) { return clamp_min(x[0], 1); });
}
void clamp_max_samples(Samples& s) {
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return clamp_max(x[0], 0.25); });
  s.call({s.integers({4}, -5, 5)}, [](const Tensors& x) { return clamp_max(x[0], 1); });
}
void frac_samples(Samples& s) {
  s.call({s.uniform({3, 4}, -3.4, 3.4)}, [](const Tensors& x) { return frac(x[0]); });
  s.call({s.integers({4}, -5, 5)}, [](const Tensors& x) { return frac(x[0]); });
}
void isclose_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return isclose(x[0], x[1], 0.1, 0.5); };
  s.call({s.randn({3, 4}), s.randn({4})}, f);
  s.call({s.integers({4}, 0, 5), s.integers({4}, 0, 5)}, f);
  s.error_call({s.randn({2}), s.randn({3})}, f, "do not broadcast");
  s.error_call(
      {s.randn({2}), s.randn({2})}, [](const Tensors& x) { return isclose(x[0], x[1], -1); }, "must not be negative");
}
void isin_samples(Samples& s) {
  s.call({s.integers({3, 4}, 0, 9), s.integers({4}, 0, 9)}, [](const Tensors& x) { return isin(x[0], x[1]); });
  s.call({s.integers({3}, 0, 9), s.integers({0}, 0, 9)}, [](const Tensors& x) { return isin(x[0], x[1]); });
}
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
MANTISSA_COMPOSITE(clamp_min, clamp_min_samples)
MANTISSA_COMPOSITE(clamp_max, clamp_max_samples)
MANTISSA_COMPOSITE(frac, frac_samples)
MANTISSA_COMPOSITE(isclose, isclose_samples, .differentiable = false)
MANTISSA_COMPOSITE(isin, isin_samples, .differentiable = false)
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
