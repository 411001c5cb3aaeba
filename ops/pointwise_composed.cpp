// Elementwise functions that are made of others: logarithms of sums, lengths, signs, powers of two, angles, steps,
// extremes that pass over NaN, and approximate equality.
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
// What `a op b` has of an operator that gives integers a floating result.
Dtype floating_dtype(const Tensor& a, const Tensor& b) {
  const Dtype d = common_dtype(a, b);
  return is_floating(d) ? d : f32;
}

template <bool base_2> struct LogAddExp {
  static constexpr auto name = base_2 ? "logaddexp2" : "logaddexp";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr bool differentiable = true;
  static Tensor compose(const LogAddExp&, const Tensor& a, const Tensor& b) {
    check(a.is_floating() && b.is_floating(), "needs floating dtypes; convert with to(f32)");
    // The larger and the smaller, without abs() or maximum(), which have a kink where both are
    // equal and the result has none.
    const Tensor first = logical_not(lt(a, b)), larger = where(first, a, b), smaller = where(first, b, a);
    // equal infinities are 0 apart
    const Tensor apart = where(logical_and(eq(a, b), isinf(a)), zero(), smaller - larger);
    const Tensor rest = base_2 ? log1p(exp2(apart)) * 1.4426950408889634 : log1p(exp(apart));
    return larger + rest;
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5}), s.randn({5})}, LogAddExp{});
    composed(s, {s.uniform({7}, -1e4, 1e4), s.uniform({7}, -1e4, 1e4)}, LogAddExp{}).extreme = true;
    composed_error(s, {s.integers({2}, 0, 3), s.randn({2})}, LogAddExp{}, "needs floating dtypes");
    composed_error(s, {s.randn({2}), s.randn({3})}, LogAddExp{}, "do not broadcast");
  }
};

struct Xlogy {
  static constexpr auto name = "xlogy";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Xlogy&, const Tensor& a, const Tensor& b) {
    // 0 where a is 0. Where b has a finite logarithm the product is 0 by itself, and the derivative to a is log(b).
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

struct Hypot {
  static constexpr auto name = "hypot";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Hypot&, const Tensor& a, const Tensor& b) {
    check(a.is_floating() && b.is_floating(), "needs floating dtypes; convert with to(f32)");
    const Tensor largest = maximum(abs(a.detach()), abs(b.detach()));
    const Tensor plain = logical_and(gt(largest, zero()), isfinite(largest));
    const Tensor scale = where(plain, largest, Tensor(1.0));
    const Tensor length = square(a / scale) + square(b / scale);
    return where(plain, scale * sqrt(where(plain, length, Tensor(1.0))), largest);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5}), s.randn({5})}, Hypot{});
    composed(s, {zeros({2}, {.dtype = f64}), zeros({2}, {.dtype = f64})}, Hypot{}).extreme = true;
    // 9e8 is beyond f16
    composed(s, {full({2}, 3e4, {.dtype = f64}), full({2}, 4e4, {.dtype = f64})}, Hypot{}).extreme = true;
    composed_error(s, {s.integers({2}, 0, 3), s.randn({2})}, Hypot{}, "needs floating dtypes");
    composed_error(s, {s.randn({2}), s.randn({3})}, Hypot{}, "do not broadcast");
  }
};

struct Copysign {
  static constexpr auto name = "copysign";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr bool differentiable = true;
  static constexpr std::uint64_t constants = 2;  // b: its gradient is 0
  static Tensor compose(const Copysign&, const Tensor& a, const Tensor& b) {
    const Tensor size = abs(cast(a, floating_dtype(a, b)));
    return where(signbit(b), -size, size);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5}), s.randn({5})}, Copysign{});
    composed(s, {s.integers({4}, 1, 9), s.integers({4}, -3, 3)}, Copysign{});
    composed_error(s, {s.randn({2}), s.randn({3})}, Copysign{}, "do not broadcast");
  }
};

struct Logit {
  static constexpr auto name = "logit";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  std::optional<double> eps = {};
  static Tensor compose(const Logit& op, const Tensor& x) {
    check_floating(x);
    check(!op.eps || (*op.eps >= 0 && *op.eps <= 0.5), "eps must be between 0 and 0.5, got ", op.eps.value_or(0));
    const Tensor inside = logical_and(ge(x, zero()), le(x, Tensor(1.0)));
    // and the gradient
    const Tensor z = op.eps ? clamp(x, *op.eps, 1 - *op.eps) : x * where(inside, ones_like(x), Tensor(NAN));
    return log(z) - log1p(-z);  // a quotient has no derivative at 0 and 1
  }
  static void samples(Samples& s) {
    composed(s, {s.uniform({3, 5}, 0.1, 0.9)}, Logit{});
    composed(s, {s.uniform({9}, -0.2, 1.2)}, Logit{0.125});
    composed_error(s, {s.randn({2})}, Logit{-1}, "eps must be between 0 and 0.5, got -1");
    composed_error(s, {s.integers({2}, 0, 2)}, Logit{}, "needs a floating dtype");
  }
};

struct Sinc {
  static constexpr auto name = "sinc";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Sinc&, const Tensor& x) {
    if (!x.is_floating()) return sinc(cast(x, f32));
    // The derivative of sin(a) / a is a difference of large numbers near 0; that of the series is exact.
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

MANTISSA_OP(LogAddExp<false>)
MANTISSA_OP(LogAddExp<true>)
MANTISSA_OP(Xlogy)
MANTISSA_OP(Hypot)
MANTISSA_OP(Copysign)
MANTISSA_OP(Logit)
MANTISSA_OP(Sinc)
MANTISSA_OP(Ldexp)

Tensor logaddexp(const Tensor& a, const Tensor& b) { return apply_composed(LogAddExp<false>{}, a, b); }
Tensor logaddexp2(const Tensor& a, const Tensor& b) { return apply_composed(LogAddExp<true>{}, a, b); }
Tensor xlogy(const Tensor& a, const Tensor& b) { return apply_composed(Xlogy{}, a, b); }
Tensor hypot(const Tensor& a, const Tensor& b) { return apply_composed(Hypot{}, a, b); }
Tensor copysign(const Tensor& a, const Tensor& b) { return apply_composed(Copysign{}, a, b); }
Tensor logit(const Tensor& x, std::optional<double> eps) { return apply_composed(Logit{eps}, x); }
Tensor sinc(const Tensor& x) { return apply_composed(Sinc{}, x); }

// Integers have no infinity: their ends, as far as a double holds them.
Tensor clamp_min(const Tensor& x, double low) {
  return clamp(x, low, x.is_floating() ? infinity : 0x1.fffffffffffffp62);
}
Tensor clamp_max(const Tensor& x, double high) { return clamp(x, x.is_floating() ? -infinity : -0x1p63, high); }
Tensor frac(const Tensor& x) { return sub(x, trunc(x)); }
Tensor signbit(const Tensor& x) {
  const Tensor negative = lt(x, zero());
  return x.is_floating() ? logical_or(negative, lt(reciprocal(where(eq(x, zero()), x, Tensor(1.0))), zero()))
                         : negative;
}
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
void signbit_samples(Samples& s) {
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return signbit(x[0]); });
  s.call({s.integers({4}, -5, 5)}, [](const Tensors& x) { return signbit(x[0]); });
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
MANTISSA_COMPOSITE(signbit, signbit_samples, .differentiable = false)
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
