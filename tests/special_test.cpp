// Special functions compared with the C++ library's, at the ends of their domains, and around branches between
// formulas; and elementwise formulas whose SIMD form is not the library's, at NaN, infinities, zeros and denormals.
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "autograd/backward.h"
#include "core/ops_special.h"
#include "core/parallel.h"
#include "core/special.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = HUGE_VAL;

std::vector<double> ramp_of(double low, double high, int count) {
  std::vector<double> x;
  for (int i = 0; i < count; ++i) x.push_back(low + (high - low) * i / (count - 1));
  return x;
}
// f(x) compared with g of each element, to rtol and atol; NaN, infinities and the signs of zeros must agree.
template <class T, class F, class G>
void compare(const char* name, const std::vector<double>& numbers, F f, G g, double rtol, double atol) {
  std::vector<T> x;
  for (double v : numbers) x.push_back(static_cast<T>(v));
  const std::vector<T> y = f(from_data(x, {static_cast<std::int64_t>(x.size())})).template to_vector<T>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = static_cast<T>(g(static_cast<double>(x[i]))), got = y[i];
    INFO(name << " of " << x[i] << ": " << got << " instead of " << expected);
    if (std::isnan(expected)) CHECK(std::isnan(got));
    else if (std::isinf(expected)) CHECK(got == expected);
    else if (expected == 0) CHECK((std::abs(got) <= atol && (got != 0 || std::signbit(got) == std::signbit(expected))));
    else CHECK(std::abs(got - expected) <= atol + rtol * std::abs(expected));
  }
}
template <class F, class G> void compare(const char* name, const std::vector<double>& numbers, F f, G g) {
  compare<float>(name, numbers, f, g, 1.3e-6, 1e-6);
  compare<double>(name, numbers, f, g, 1e-12, 1e-14);
}

}  // namespace

TEST_CASE("Bessel functions are those of the C++ library", "[special]") {
  std::vector<double> x = ramp_of(0, 40, 401);
  for (double v : {1e-300, 1e-8, 7.999999, 8.0, 8.000001}) x.push_back(v);
  // the library's values are accurate to about 1e-13 of the largest term of their sums
  compare<double>("i0e", x, i0e, [](double v) { return std::cyl_bessel_i(0, v) * std::exp(-v); }, 1e-11, 1e-14);
  compare<double>("i1e", x, i1e, [](double v) { return std::cyl_bessel_i(1, v) * std::exp(-v); }, 1e-11, 1e-14);
  compare<double>("i0", x, i0, [](double v) { return std::cyl_bessel_i(0, v); }, 1e-11, 1e-14);
  compare<double>("i1", x, i1, [](double v) { return std::cyl_bessel_i(1, v); }, 1e-11, 1e-14);
  compare<double>("j0", x, bessel_j0, [](double v) { return std::cyl_bessel_j(0, v); }, 1e-11, 1e-12);
  compare<double>("j1", x, bessel_j1, [](double v) { return std::cyl_bessel_j(1, v); }, 1e-11, 1e-12);
  const Tensor far = tensor({inf, -inf, NAN, -3.0}, {.dtype = f64});
  CHECK(i0(far).to_vector<double>()[1] == inf);
  CHECK(i1(far).to_vector<double>()[1] == -inf);
  for (auto f : {i0, i1, i0e, i1e, bessel_j0, bessel_j1}) {
    CHECK(std::isnan(f(far).to_vector<double>()[2]));
    const double sign = f == i1 || f == i1e || f == bessel_j1 ? -1 : 1;  // odd or even
    CHECK(f(far).to_vector<double>()[3] == sign * f(-far).to_vector<double>()[3]);
  }
  for (auto f : {i0e, i1e, bessel_j0, bessel_j1}) CHECK(f(far).to_vector<double>()[0] == 0);
  // whatever the neighbouring elements are
  const Tensor close = from_data(ramp_of(-8, 8, 200), {200}), both = stack({close, close * 9.0 + 80.0}, 1);
  for (auto f : {i0, i1, i0e, i1e, bessel_j0, bessel_j1}) CHECK(equal(f(both).slice(1, 0, 1).squeeze(1), f(close)));
}

TEST_CASE("the normal distribution far out", "[special]") {
  const std::vector<double> z = ramp_of(-37, 2, 181);
  compare<double>(
      "ndtri(exp(log_ndtr))", z, [](const Tensor& x) { return ndtri(exp(log_ndtr(x))); },
      [](double v) { return v; }, 1e-9, 1e-9);
  CHECK(log_ndtr(tensor({-1e4}, {.dtype = f64})).item<double>() == Approx(-50000010.129278892));
  const Tensor x = tensor({-200.0}, {.dtype = f32}).requires_grad_();
  CHECK(grad(log_ndtr(x), {x})[0].item<double>() == Approx(200.00499987502).epsilon(1e-6));
  CHECK(erfcx(tensor({-30.0, 1e200}, {.dtype = f64})).to_vector<double>()[0] == inf);
}

// z with p = 1/2 - z / sqrt(2 pi) + ..., the distribution function at -z: near the middle and for the smallest numbers.
TEST_CASE("ndtri keeps its digits near the middle, and where p is denormal", "[special]") {
  for (double away : {1e-16, 3e-13, 1e-9, 2e-6}) {
    INFO("1/2 and " << away);
    const double p = 0.5 + away, q = 0.5 - away;  // what is left of `away` after rounding
    const auto series = [](double d) { return 2.5066282746310002 * d * (1 + 1.0471975511965976 * d * d); };
    const auto z = ndtri(tensor({p, q}, {.dtype = f64})).to_vector<double>();
    CHECK(z[0] == Approx(series(p - 0.5)).epsilon(2e-15));
    CHECK(z[1] == Approx(series(q - 0.5)).epsilon(2e-15));
  }
  set_flush_denormals(false);
  // for the smallest number, 1e-310 and 2^-1022, by mpmath with 40 digits
  const auto far = ndtri(tensor({5e-324, 1e-310, 0x1p-1022}, {.dtype = f64})).to_vector<double>();
  CHECK(far[0] == Approx(-38.467405617144346).epsilon(1e-15));
  CHECK(far[1] == Approx(-37.663060331949524).epsilon(1e-15));
  CHECK(far[2] == Approx(-37.5193793471445).epsilon(1e-15));
  CHECK(std::isnan(ndtri(tensor({-5e-324}, {.dtype = f64})).item<double>()));
  set_flush_denormals(true);
}

TEST_CASE("erfc, erfcx and atan2 in f64 keep all but the last digits of every size", "[special]") {
  std::vector<double> x = ramp_of(-28, 28, 2801);
  for (int e = -1074; e < 1024; e += 7) x.push_back(std::ldexp(e % 2 ? 1.1 : -1.3, e));
  for (double v : {0.0, -0.0, inf, -inf, double{NAN}, 0.5, -0.5, 26.5, 27.2, 27.23}) x.push_back(v);
  set_flush_denormals(false);
  const auto run = [&](const char* name, auto f, auto g) {
    compare<double>(name, x, f, g, 2e-15, 1e-323);
  };
  run("erfc", [](const Tensor& t) { return erfc(t); }, [](double v) { return std::erfc(v); });
  run("erfcx", [](const Tensor& t) { return erfcx(t); }, [](double v) {
    const long double w = v;
    if (v < 20) return static_cast<double>(std::exp(w * w) * std::erfc(w));
    return static_cast<double>(1 / (w * 1.77245385090551602730L) *  // the asymptotic series
                               (1 - 0.5L / w / w * (1 - 1.5L / w / w * (1 - 2.5L / w / w * (1 - 3.5L / w / w *
                               (1 - 4.5L / w / w * (1 - 5.5L / w / w * (1 - 6.5L / w / w))))))));
  });
  for (double b : {0.0, -0.0, 1.0, -2.5, 1e300, -1e-310, inf, -inf, double{NAN}}) {
    run("atan2", [&](const Tensor& t) { return atan2(t, Tensor(b)); }, [&](double v) { return std::atan2(v, b); });
    run("atan2", [&](const Tensor& t) { return atan2(Tensor(b), t); }, [&](double v) { return std::atan2(b, v); });
  }
  set_flush_denormals(true);
}

TEST_CASE("incomplete gamma functions add up to 1 and have gradients to both arguments", "[special]") {
  for (double a : {0.01, 0.9, 7.0, 300.0, 9e4, 3e5, 1e8}) {
    const Tensor shape = full({25}, a, {.dtype = f64});
    const Tensor x = abs(a + std::sqrt(a) * linspace(-0.9, 4, 25, {.dtype = f64}));
    INFO("a = " << a);
    CHECK(all_close(igamma(shape, x) + igammac(shape, x), ones({25}, {.dtype = f64})));
  }
  // Q near 0 where P is nearly 1; values computed with 40 digits.
  for (const auto& [shape, x, q] : {std::array{1e-10, 0.3, 9.056766516920478e-11}, {1e-10, 1.0, 2.1938393441796779e-11},
                                    {1e-6, 1e-4, 8.6331882607570871e-6}, {1e-3, 0.05, 0.0024656274668934224},
                                    {0.05, 1e-9, 0.63552970257242319}, {0.4, 0.9, 0.13747899900549846},
                                    {1e-12, 2.0, 4.8900510708137505e-14}}) {
    INFO("a = " << shape << ", x = " << x);
    CHECK(igammac(full({}, shape, {.dtype = f64}), full({}, x, {.dtype = f64})).item<double>() ==
          Approx(q).epsilon(1e-13));
  }
  const Tensor a = tensor({0.5, 3, 40}, {.dtype = f64}).requires_grad_(), x = tensor({0.7, 2.5, 45}, {.dtype = f64});
  const Tensor slope = (igammac(a.detach() + 1e-5, x) - igammac(a.detach() - 1e-5, x)) / 2e-5;
  CHECK(allclose(grad(sum(igammac(a, x)), {a})[0], slope, 1e-7, 1e-9));
  const Tensor once = grad(sum(igammac(a, x)), {a}, {.create_graph = true})[0];
  CHECK(allclose(once.detach(), slope, 1e-7, 1e-9));
  CHECK_THAT(message_of([&] { grad(sum(once), {a}); }), Contains("has none of its own"));
  CHECK_THAT(message_of([&] { grad(sum(zeta(a + 1.5, x)), {a}); }), Contains("there is no gradient to x; detach() it"));
}

TEST_CASE("elementwise formulas at special numbers, and over their whole domain", "[special]") {
  constexpr double least = std::numeric_limits<float>::min(), most = std::numeric_limits<float>::max();
  std::vector<double> x = ramp_of(-20, 20, 1601);
  for (double v : {0.0, -0.0, inf, -inf, double{NAN}, least, -least, most, -most, 1e-20, 1e20, 0.25, 0.9999999, 1e-7})
    x.push_back(v);
  compare(
      "erfc", x, [](const Tensor& t) { return erfc(t); }, [](double v) { return std::erfc(v); });
  compare(
      "lgamma", x, [](const Tensor& t) { return lgamma(t); }, [](double v) { return std::lgamma(v); });
  const double nan = NAN;
  compare(
      "logit", x, [](const Tensor& t) { return logit(t); },
      [&](double v) { return v < 0 || v > 1 ? nan : std::log(v) - std::log1p(-v); });
  compare(
      "erfinv(erf)", ramp_of(-1.9, 1.9, 999), [](const Tensor& t) { return erf(erfinv(t * 0.5)); },
      [](double v) { return v * 0.5; });
  compare(
      "erfinv at the ends", {-1, 1, 1.5, -2, 0, -0.0, nan}, [](const Tensor& t) { return erfinv(t); },
      [&](double v) { return std::abs(v) == 1 ? v * inf
                             : v == 0         ? v
                                              : nan; });
  compare(
      "copysign", x, [](const Tensor& t) { return copysign(Tensor(3.0), t); },
      [](double v) { return std::isnan(v) || !std::signbit(v) ? 3.0 : -3.0; });
  for (double b : {0.0, 1.5, -inf, double{NAN}, most}) {
    compare(
        "hypot", x, [&](const Tensor& t) { return hypot(t, Tensor(b)); }, [&](double v) { return std::hypot(v, b); });
  }
  CHECK(signbit(tensor({-0.0, 0.0, -inf, -1, 2}, {.dtype = f32})).to_vector<int>() == std::vector<int>{1, 0, 1, 1, 0});
}

TEST_CASE("nan_to_num passes a gradient to what it keeps, infinities too", "[special]") {
  const Tensor x = tensor({1, inf, -inf, NAN}, {.dtype = f64}).requires_grad_();
  const auto slope = [&](const Tensor& y) { return grad(sum(y), {x})[0].to_vector<double>(); };
  CHECK(slope(nan_to_num(x, 0, inf, -inf)) == std::vector<double>{1, 1, 1, 0});
  CHECK(slope(nan_to_num(x, 0, inf, 5)) == std::vector<double>{1, 1, 0, 0});
  CHECK(slope(nan_to_num(x)) == std::vector<double>{1, 0, 0, 0});
}

TEST_CASE("clamp passes a gradient between its bounds; an infinite one is none", "[special]") {
  const Tensor x = tensor({0.5, 0, 1, inf, -inf, NAN}, {.dtype = f64}).requires_grad_();
  const auto slope = [&](const Tensor& y) { return grad(y, {x}, ones_like(y))[0].to_vector<double>(); };
  CHECK(slope(clamp(x, 0, 1)) == std::vector<double>{1, 0, 0, 0, 0, 0});
  CHECK(slope(clamp_min(x, 0)) == std::vector<double>{1, 0, 1, 1, 0, 0});
  CHECK(slope(clamp_max(x, 1)) == std::vector<double>{1, 1, 0, 0, 1, 0});
}
