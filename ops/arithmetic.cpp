// Arithmetic of one or two tensors, and where. Formulas: core/pointwise.h; machinery: ops/pointwise.h.
#include <cmath>

#include "core/recording.h"
#include "ops/pointwise.h"

namespace mantissa {
namespace {

using namespace pointwise;

// --- gradients of the binary operators ---
struct AddOp : Binary<Add, AddOp> {
  static constexpr auto vjp() { return rules([](Grad g) -> Tensor { return g; }, [](Grad g) -> Tensor { return g; }); }
};
struct SubOp : Binary<Sub, SubOp> {
  static constexpr auto vjp() { return rules([](Grad g) -> Tensor { return g; }, [](Grad g) { return -g; }); }
};
struct MulOp : Binary<Mul, MulOp> {
  static constexpr auto vjp() {
    return rules([](Grad g, In<1> b) { return g * b; }, [](Grad g, In<0> a) { return g * a; });
  }
};
struct DivOp : Binary<Div, DivOp> {
  static constexpr auto vjp() {
    return rules([](Grad g, In<1> b) { return g / b; }, [](Grad g, In<1> b, Out<0> y) { return -(g * y / b); });
  }
};
// x in the dtype of the result: b - 1 would wrap around in u8, and a logarithm in bf16 has only two digits.
Tensor as(const Tensor& g, const Tensor& x) { return x.is_weak_scalar() ? x : cast(x, g.dtype()); }
struct PowOp : Binary<Pow, PowOp> {
  void run(const View& y, const View& a, const View& b) const {
    const View* inputs[] = {&a};  // one operand less, and a separate bf16 loop
    if (is_number(b, 2) && is_floating(a.dtype)) run_formula(Square{}, compute_dtype(y.dtype), y, inputs);
    else if (is_number(b, -1) && is_floating(a.dtype)) run_formula(Reciprocal{}, compute_dtype(y.dtype), y, inputs);
    else Binary<Pow, PowOp>::run(y, a, b);
  }
  static constexpr auto vjp() {
    return rules(
        [](Grad g, In<0> a, In<1> b) -> Tensor {
          if (is_number(b, 2)) return g * (b * as(g, a));
          const Tensor da = g * b * pow(as(g, a), less_one(as(g, b)));
          return b.is_weak_scalar() && !is_number(b, 0) ? da : where(b == 0.0, Tensor(0.0), da);
        },
        [](Grad g, In<0> a, Out<0> y) {
          // The logarithm of an integer would be f32.
          const Tensor base = a.is_floating() ? as(g, a) : cast(a, compute_dtype(g.dtype()));
          return where(a == 0.0, Tensor(0.0), g * y * log(base));  // 0^b: limit 0
        });
  }
  static bool is_number(const Tensor& b, double number) { return b.is_weak_scalar() && b.item<double>() == number; }
  static bool is_number(const View& b, int number) {
    return b.weak_scalar && (b.dtype == f64   ? *b.as<const double>() == number
                             : b.dtype == i64 ? *b.as<const std::int64_t>() == number
                                              : false);
  }
  // A scalar exponent stays a scalar, so that x^2.0 of an f32 tensor is differentiated in f32.
  static Tensor less_one(const Tensor& b) { return b.is_weak_scalar() ? Tensor(b.item<double>() - 1) : b - 1.0; }
};
// Integer powers by repeated squaring, wrapping around on overflow.
Tensor integer_pow(const Tensor& a, std::int64_t exponent, Dtype result) {
  check(exponent >= 0, "pow: an integer to the power of ", exponent, " is no integer; convert with to(f32)");
  Tensor power = ones(a.sizes(), {.dtype = i64, .device = a.device()}), square = a.to(i64);
  for (; exponent > 0; exponent >>= 1, square = square * square) {
    if (exponent & 1) power = power * square;
  }
  return power.to(result);
}
// Negative exponents in a tensor give 0 except for bases 1 and -1, as in PyTorch.
Tensor integer_pow(const Tensor& a, const Tensor& b) {
  if (b.is_weak_scalar()) return integer_pow(a, b.item<std::int64_t>(), common_dtype(a, b));
  check_may_read("pow", b, "the largest integer exponent says how many squares it takes");
  const Tensor exponent = abs(b.to(i64));
  Tensor power = ones_like(exponent), square = a.to(i64);
  for (int bit = 0; bit < 63; ++bit, square = square * square) {
    const Tensor mask = full({}, std::ldexp(1.0, bit), {.dtype = i64, .device = b.device()});
    if (!any(ge(exponent, mask)).item<bool>()) break;
    power = where(ne(bitwise_and(exponent, mask), Tensor(0.0)), power * square, power);
  }
  const Tensor vanishes = logical_and(lt(b, Tensor(0.0)), ne(abs(a), Tensor(1.0)));
  return where(vanishes, zeros_like(power), power).expand(broadcast(a.sizes(), b.sizes())).to(common_dtype(a, b));
}
// The gradient goes to the larger operand; equal values share it, and NaN passes it to both.
struct MaximumOp : Binary<Maximum, MaximumOp> {
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> a, In<1> b) { return gradient_unless(a < b, a == b, g); },
                 [](Grad g, In<0> a, In<1> b) { return gradient_unless(b < a, a == b, g); });
  }
  static Tensor gradient_unless(const Tensor& loses, const Tensor& ties, const Tensor& g) {
    return where(loses, Tensor(0.0), where(ties, 0.5 * g, g));
  }
};
struct MinimumOp : Binary<Minimum, MinimumOp> {
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> a, In<1> b) { return MaximumOp::gradient_unless(a > b, a == b, g); },
                 [](Grad g, In<0> a, In<1> b) { return MaximumOp::gradient_unless(b > a, a == b, g); });
  }
};
struct HypotOp : Binary<Hypot, HypotOp> {
  Spec infer(const Tensor& a, const Tensor& b) const {
    check(a.is_floating() && b.is_floating(), "needs floating dtypes; convert with to(f32)");
    return Binary::infer(a, b);
  }
  static Tensor share(const Tensor& x, const Tensor& y) {  // 0 at the origin
    const Tensor zero = eq(y, Tensor(0.0));
    return where(zero, Tensor(0.0), x / where(zero, Tensor(1.0), y));
  }
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> a, Out<0> y) { return g * share(a, y); },
                 [](Grad g, In<1> b, Out<0> y) { return g * share(b, y); });
  }
  static void samples(Samples& s) {
    Binary::samples(s);
    s({zeros({2}, {.dtype = f64}), zeros({2}, {.dtype = f64})}, HypotOp{}).extreme = true;
    // 9e8 exceeds f16
    s({full({2}, 3e4, {.dtype = f64}), full({2}, 4e4, {.dtype = f64})}, HypotOp{}).extreme = true;
    s.error({s.integers({2}, 0, 3), s.randn({2})}, HypotOp{}, "needs floating dtypes");
  }
};
struct CopysignOp : Binary<Copysign, CopysignOp> {
  static constexpr std::uint64_t constants = 2;  // b: its gradient is 0
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> a, In<1> b) { return g * sign(a) * copysign(Tensor(1.0), b); }, no_gradient);
  }
  static void samples(Samples& s) {
    Binary::samples(s);
    s({s.integers({4}, 1, 9), s.integers({4}, -3, 3)}, CopysignOp{});
  }
};
struct WhereOp : Where {
  static constexpr bool takes_host_numbers = true;
  static constexpr const char* args[] = {"condition", "a", "b"};
  Spec infer(const Tensor& c, const Tensor& a, const Tensor& b) const {
    check(c.dtype() == boolean, "the condition must be bool; compare with something, as in x != 0");
    const Dtype both = common_dtype(a, b);
    const bool numbers = a.is_weak_scalar() && b.is_weak_scalar();  // where(x > 0, 1.0, 0.5): no tensor sets the dtype
    return in_layout_of({broadcast(c.sizes(), broadcast(a.sizes(), b.sizes())), numbers && both == f64 ? f32 : both,
                         on_device(c, on_device(a, b)).device()},
                        c, a, b);
  }
  void run(const View& y, const View& c, const View& a, const View& b) const {
    const View* inputs[] = {&c, &a, &b};
    run_formula<Where>(*this, compute_dtype(y.dtype), y, inputs);
  }
  static constexpr auto vjp() {
    return rules(no_gradient, [](Grad g, In<0> c) { return where(c, g, Tensor(0.0)); },
                 [](Grad g, In<0> c) { return where(c, Tensor(0.0), g); });
  }
  void onnx(OnnxCall& c) const {
    const Dtype dtype = c.y().dtype();
    const OnnxId condition = c.in(0), a = c.in(1, dtype), b = c.in(2, dtype);
    if (dtype != boolean) return c.result(c.node("Where", {condition, a, b}));
    const OnnxId otherwise = c.node("And", {c.node("Not", {condition}), b});  // ONNX Runtime's has no bool
    c.result(c.node("Or", {c.node("And", {condition, a}), otherwise}));
  }
  static void samples(Samples& s) {
    s({s.booleans({3, 5}), s.randn({3, 5}), s.randn({3, 5})}, WhereOp{});
    s({s.booleans({3, 1}), s.randn({5}), s.randn({2, 1, 1})}, WhereOp{});
    s({s.booleans({}), s.randn({}), s.randn({})}, WhereOp{});
    s.error({s.randn({2}), s.randn({2}), s.randn({2})}, WhereOp{}, "the condition must be bool");
    s.error({s.booleans({3}), s.randn({2}), s.randn({2})}, WhereOp{}, "do not broadcast");
  }
};

}  // namespace

MANTISSA_BINARY(AddOp, add)
MANTISSA_BINARY(SubOp, sub)
MANTISSA_BINARY(MulOp, mul)
MANTISSA_BINARY(DivOp, div)
MANTISSA_OP(PowOp)
Tensor pow(const Tensor& a, const Tensor& b) {
  return a.is_floating() || b.is_floating() ? apply(PowOp{}, a, b) : integer_pow(a, b);
}
MANTISSA_BINARY(MaximumOp, maximum)
MANTISSA_BINARY(MinimumOp, minimum)
MANTISSA_BINARY(HypotOp, hypot)
MANTISSA_BINARY(CopysignOp, copysign)
MANTISSA_UNARY(Neg, neg)
MANTISSA_UNARY(Abs, abs)
MANTISSA_UNARY(Square, square)
MANTISSA_UNARY(Sqrt, sqrt)
MANTISSA_UNARY(Rsqrt, rsqrt)
MANTISSA_UNARY(Reciprocal, reciprocal)
MANTISSA_OP(WhereOp)
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) { return apply(WhereOp{}, condition, a, b); }

}  // namespace mantissa
