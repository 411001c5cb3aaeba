// Special functions: one kernel for unary and one for binary functions (core/special_functions.h), and three composed
// of operators.
#include "core/special.h"

#include <limits>

#include "core/gamma_slope.h"
#include "core/kernel.h"
#include "core/ops_special.h"
#include "core/special_functions.h"
#include "ops/compose.h"
#include "ops/floating.h"
#include "ops/function.h"

namespace mantissa {
MANTISSA_KERNEL(special_unary, const View& y, const View& x, int which)
MANTISSA_KERNEL(special_binary, const View& y, const View& a, const View& b, int which)

namespace {

template <special::Unary which> struct UnarySpecial {
  static constexpr const char* args[] = {"x"};
  Spec infer(const Tensor& x) const {
    check_floating(x);
    return like(x);
  }
  void run(const View& y, const View& x) const { kernels::special_unary(x.device, y, x, static_cast<int>(which)); }
};
template <class Op> void sample(Samples& s, double low, double high) {
  for (const Dims& sizes : {Dims{3, 7}, Dims{}, Dims{0, 4}, Dims{2, 1030}}) s({s.uniform(sizes, low, high)}, Op{});
  s.error({s.integers({2}, 0, 3)}, Op{}, "needs a floating dtype");
}
// y / x for the functions of order 1, which behave as x / 2 near 0
Tensor slope_from_0(const Tensor& y, const Tensor& x) {
  const Tensor zero = eq(x, Tensor(0.0));
  return where(zero, Tensor(0.5), y / where(zero, Tensor(1.0), x));
}

struct I0 : UnarySpecial<special::Unary::i0> {
  static constexpr auto name = "i0";
  static constexpr auto vjp() { return rules([](Grad g, In<0> x) { return g * i1(x); }); }
  static void samples(Samples& s) { sample<I0>(s, -12, 12); }
};
struct I0e : UnarySpecial<special::Unary::i0e> {
  static constexpr auto name = "i0e";
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> x, Out<0> y) { return g * (i1e(x) - sign(x) * y); });
  }
  static void samples(Samples& s) { sample<I0e>(s, 0.5, 20); }
};
struct I1 : UnarySpecial<special::Unary::i1> {
  static constexpr auto name = "i1";
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> x, Out<0> y) { return g * (i0(x) - slope_from_0(y, x)); });
  }
  static void samples(Samples& s) { sample<I1>(s, -12, 12); }
};
struct I1e : UnarySpecial<special::Unary::i1e> {
  static constexpr auto name = "i1e";
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> x, Out<0> y) { return g * (i0e(x) - sign(x) * y - slope_from_0(y, x)); });
  }
  static void samples(Samples& s) { sample<I1e>(s, 0.5, 20); }
};
struct BesselJ0 : UnarySpecial<special::Unary::bessel_j0> {
  static constexpr auto name = "bessel_j0";
  static constexpr auto vjp() { return rules([](Grad g, In<0> x) { return -(g * bessel_j1(x)); }); }
  static void samples(Samples& s) { sample<BesselJ0>(s, -15, 15); }
};
struct BesselJ1 : UnarySpecial<special::Unary::bessel_j1> {
  static constexpr auto name = "bessel_j1";
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> x, Out<0> y) { return g * (bessel_j0(x) - slope_from_0(y, x)); });
  }
  static void samples(Samples& s) { sample<BesselJ1>(s, -15, 15); }
};
struct Erfcx : UnarySpecial<special::Unary::erfcx> {
  static constexpr auto name = "erfcx";
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> x, Out<0> y) { return g * (2.0 * x * y - 1.1283791670955126); });
  }
  static void samples(Samples& s) { sample<Erfcx>(s, -2, 4); }
};
struct LogNdtr : UnarySpecial<special::Unary::log_ndtr> {
  static constexpr auto name = "log_ndtr";
  static constexpr auto vjp() {  // density divided by area
    return rules([](Grad g, In<0> x) { return g * (0.7978845608028654 / erfcx(x * -0.7071067811865476)); });
  }
  static void samples(Samples& s) { sample<LogNdtr>(s, -8, 3); }
};
struct Ndtri : UnarySpecial<special::Unary::ndtri> {
  static constexpr auto name = "ndtri";
  static constexpr auto vjp() {
    return rules([](Grad g, Out<0> y) { return g * (2.5066282746310002 * exp(0.5 * square(y))); });
  }
  static void samples(Samples& s) { sample<Ndtri>(s, 0.1, 0.9); }
};

template <special::Binary which> struct BinarySpecial {
  Spec infer(const Tensor& a, const Tensor& b) const {
    const Dtype d = common_dtype(a, b);
    return {broadcast(a.sizes(), b.sizes()), is_floating(d) ? d : f32, a.is_weak_scalar() ? b.device() : a.device()};
  }
  void run(const View& y, const View& a, const View& b) const {
    kernels::special_binary(y.device, y, a, b, static_cast<int>(which));
  }
};
struct Zeta : BinarySpecial<special::Binary::zeta> {
  static constexpr auto name = "zeta";
  static constexpr const char* args[] = {"x", "q"};
  static constexpr std::uint64_t constants = 1;
  static constexpr auto vjp() {
    return rules(
        [](Grad) -> Tensor { fail("zeta: there is no gradient to x; detach() it"); },
        [](Grad g, In<0> x, In<1> q) {  // rounded once
          const Dtype wide = compute_dtype(g.dtype());
          const Tensor s = cast(x, wide);
          return -(g * cast(s * zeta(s + Tensor(1), cast(q, wide)), g.dtype()));
        });
  }
  static void samples(Samples& s) {
    s({s.integers({3, 5}, 2, 7), s.uniform({5}, 0.5, 6)}, Zeta{});
    s({s.integers({4, 1}, 2, 4), s.uniform({3}, 0.8, 3)}, Zeta{});
    s({s.integers({6}, 2, 4), s.uniform({6}, -1.8, -1.2)}, Zeta{});  // no broadcast: gradients of both signs cancel
    s({s.integers({0, 4}, 2, 4), s.uniform({4}, 1, 2)}, Zeta{});
    s.error({s.integers({2}, 2, 4), s.randn({3})}, Zeta{}, "do not broadcast");
  }
};
// The density of the gamma distribution, which is the derivative of P with respect to x, in f64.
Tensor gamma_density(const Tensor& a, const Tensor& x) { return exp(xlogy(a - 1.0, x) - x - lgamma(a)); }
// The gradient with respect to a: a series, which is not differentiable here.
struct IncompleteGammaByShape {
  static constexpr auto name = "igamma, its gradient to a";
  bool upper = false;
  Tensor forward(Saved&, const Tensor& g, const Tensor& a, const Tensor& x) const {
    const Tensor shape = cast(a, f64), place = cast(x, f64);
    const Tensor slope = gamma_slope(shape, place) * gamma_density(shape, place);
    return g * cast(upper ? slope : -slope, g.dtype());
  }
  std::vector<Tensor> backward(const Saved&, const Tensor&) const {
    fail("igamma: the gradient to a has none of its own; detach() a");
  }
};
template <bool upper> struct IncompleteGamma
    : BinarySpecial<upper ? special::Binary::igammac : special::Binary::igamma> {
  static constexpr auto name = upper ? "igammac" : "igamma";
  static constexpr const char* args[] = {"a", "x"};
  static constexpr bool twice_differentiable = false;  // with respect to x only
  static constexpr auto vjp() {
    return rules(
        [](Grad g, In<0> a, In<1> x) { return apply_function(IncompleteGammaByShape{upper}, g, a, x); },
        [](Grad g, In<0> a, In<1> x) {
          const Tensor slope = gamma_density(cast(a, f64), cast(x, f64));
          return g * cast(upper ? -slope : slope, g.dtype());
        });
  }
  static void samples(Samples& s) {
    s({s.uniform({3, 5}, 0.5, 6), s.uniform({5}, 0.3, 8)}, IncompleteGamma{});
    s({s.uniform({4, 1}, 20, 60), s.uniform({3}, 20, 60)}, IncompleteGamma{});
    s({s.uniform({0, 4}, 1, 2), s.uniform({4}, 1, 2)}, IncompleteGamma{});
    s.error({s.uniform({2}, 1, 2), s.uniform({3}, 1, 2)}, IncompleteGamma{}, "do not broadcast");
  }
};

struct Ndtr {
  static constexpr auto name = "ndtr";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Ndtr&, const Tensor& x) { return 0.5 * erfc(x * -0.7071067811865476); }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5})}, Ndtr{});
    composed(s, {s.integers({4}, -3, 3)}, Ndtr{});
  }
};
struct Entr {
  static constexpr auto name = "entr";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Entr&, const Tensor& x) {
    const Tensor z = floating(x), below = lt(z, Tensor(0.0));
    const Tensor size = where(below, Tensor(1.0), z);
    return where(below, Tensor(-std::numeric_limits<double>::infinity()), -xlogy(size, size));
  }
  static void samples(Samples& s) {
    composed(s, {s.uniform({3, 5}, 0.2, 3)}, Entr{});
    composed(s, {s.integers({4}, 1, 4)}, Entr{});
  }
};
struct Xlog1py {
  static constexpr auto name = "xlog1py";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Xlog1py&, const Tensor& a, const Tensor& b) {
    // As in xlogy: the case where a is 0 and the logarithm of b is not finite.
    const Tensor finite = logical_and(gt(b, Tensor(-1.0)), isfinite(b));
    const Tensor none = logical_and(eq(a, Tensor(0.0)), logical_not(logical_or(finite, isnan(b))));
    const Dtype d = common_dtype(a, b);
    return where(none, Tensor(0.0), a * log1p(cast(where(none, Tensor(0.0), b), is_floating(d) ? d : f32)));
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5}), s.uniform({5}, -0.7, 3)}, Xlog1py{});
    composed(s, {zeros({4}, {.dtype = f64}), s.uniform({4}, -2, 1)}, Xlog1py{}).extreme = true;
    composed_error(s, {s.randn({2}), s.randn({3})}, Xlog1py{}, "do not broadcast");
  }
};

using Igamma = IncompleteGamma<false>;
using Igammac = IncompleteGamma<true>;

}  // namespace

MANTISSA_OP(I0)
MANTISSA_OP(I0e)
MANTISSA_OP(I1)
MANTISSA_OP(I1e)
MANTISSA_OP(BesselJ0)
MANTISSA_OP(BesselJ1)
MANTISSA_OP(Erfcx)
MANTISSA_OP(LogNdtr)
MANTISSA_OP(Ndtri)
MANTISSA_OP(Zeta)
MANTISSA_OP(Igamma)
MANTISSA_OP(Igammac)
MANTISSA_OP(Ndtr)
MANTISSA_OP(Entr)
MANTISSA_OP(Xlog1py)

Tensor i0(const Tensor& x) { return apply(I0{}, floating(x)); }
Tensor i0e(const Tensor& x) { return apply(I0e{}, floating(x)); }
Tensor i1(const Tensor& x) { return apply(I1{}, floating(x)); }
Tensor i1e(const Tensor& x) { return apply(I1e{}, floating(x)); }
Tensor bessel_j0(const Tensor& x) { return apply(BesselJ0{}, floating(x)); }
Tensor bessel_j1(const Tensor& x) { return apply(BesselJ1{}, floating(x)); }
Tensor erfcx(const Tensor& x) { return apply(Erfcx{}, floating(x)); }
Tensor log_ndtr(const Tensor& x) { return apply(LogNdtr{}, floating(x)); }
Tensor ndtri(const Tensor& p) { return apply(Ndtri{}, floating(p)); }
Tensor zeta(const Tensor& x, const Tensor& q) { return apply(Zeta{}, x, q); }
Tensor igamma(const Tensor& a, const Tensor& x) { return apply(Igamma{}, a, x); }
Tensor igammac(const Tensor& a, const Tensor& x) { return apply(Igammac{}, a, x); }
Tensor ndtr(const Tensor& x) { return apply_composed(Ndtr{}, floating(x)); }
Tensor entr(const Tensor& x) { return apply_composed(Entr{}, x); }
Tensor xlog1py(const Tensor& a, const Tensor& b) { return apply_composed(Xlog1py{}, a, b); }

}  // namespace mantissa
