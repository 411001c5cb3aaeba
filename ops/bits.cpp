// Functions of the bits of numbers: shifts, gcd and lcm of integers, nextafter and frexp of floats. Formulas:
// core/bit_functions.h.
#include "core/bit_functions.h"
#include "core/kernel.h"
#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "ops/floating.h"
#include "ops/pointwise.h"

namespace mantissa {
MANTISSA_KERNEL(bit_pair, bits::Pair pair, const View& y, const View& a, const View& b)
MANTISSA_KERNEL(frexp, const View& mantissa, const View& exponent, const View& x)

namespace {

using bits::Pair;

template <Pair pair> struct PairOperator {  // of two tensors of the same dtype
  static constexpr const char* args[] = {"a", "b"};
  static constexpr bool takes_host_numbers = true;
  Spec infer(const Tensor& a, const Tensor& b) const {
    return {broadcast(a.sizes(), b.sizes()), a.dtype(), pointwise::on_device(a, b).device()};
  }
  void run(const View& y, const View& a, const View& b) const { kernels::bit_pair(y.device, pair, y, a, b); }
};
constexpr const char* names[] = {"bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm"};
template <Pair pair> struct IntegerPair : PairOperator<pair> {
  static constexpr auto name = names[static_cast<int>(pair)];
  static constexpr bool differentiable = false;
  Spec infer(const Tensor& a, const Tensor& b) const {
    check(!a.is_floating() && a.dtype() != boolean, "needs integers");
    return PairOperator<pair>::infer(a, b);
  }
  static void samples(Samples& s) {
    const std::int64_t low = pair == Pair::left_shift || pair == Pair::right_shift ? 0 : -99, high = low == 0 ? 6 : 99;
    const Dims shapes[][2] = {{{3, 5}, {3, 5}}, {{4, 1, 3}, {2, 1}}, {{}, {3}}, {{0, 3}, {3}}, {{700}, {2, 700}}};
    for (const auto& [a, b] : shapes) s({s.integers(a, -99, 99), s.integers(b, low, high)}, IntegerPair{});
    s.error({s.integers({2, 3}, 0, 9), s.integers({4}, 0, 9)}, IntegerPair{}, "do not broadcast");
    s.error({s.randn({2}), s.randn({2})}, IntegerPair{}, "needs integers");
  }
};
struct NextAfter : PairOperator<Pair::next_after> {
  static constexpr auto name = "nextafter";
  static constexpr bool halves = false;
  Spec infer(const Tensor& a, const Tensor& b) const {
    check(a.dtype() == f32 || a.dtype() == f64, "needs f32 or f64; convert with to(f32)");
    return PairOperator::infer(a, b);
  }
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> a, In<1> b) { return where(eq(a, b), zeros_like(g), g); },
                 [](Grad g) { return zeros_like(g); });
  }
  static void samples(Samples& s) {
    s({s.randn({3, 5}), s.randn({3, 5})}, NextAfter{});
    s({s.randn({4, 1, 3}), s.randn({2, 1})}, NextAfter{});
    s({s.randn({0, 3}), s.randn({3})}, NextAfter{});
    s.error({s.integers({2}, 0, 9), s.integers({2}, 0, 9)}, NextAfter{}, "needs f32 or f64");
    s.error({s.randn({2, 3}), s.randn({4})}, NextAfter{}, "do not broadcast");
  }
};

struct Frexp {
  static constexpr auto name = "frexp";
  static constexpr const char* args[] = {"x"};
  std::array<Spec, 2> infer(const Tensor& x) const {
    check_floating(x);
    return {like(x), like(x, i32)};
  }
  void run(const std::array<View, 2>& y, const View& x) const { kernels::frexp(x.device, y[0], y[1], x); }
  static constexpr auto vjp() {
    return rules([](Grad g, Out<1> exponent) { return ldexp(g, -exponent); });
  }
  static void samples(Samples& s) {
    // Away from powers of 2, where rounding could halve the mantissa.
    s({s.uniform({3, 4}, 1.2, 1.8)}, Frexp{});
    s({s.uniform({2, 3}, -7, -5)}, Frexp{});
    s({s.uniform({}, 0.3, 0.4)}, Frexp{});
    s({s.uniform({0, 3}, 1, 2)}, Frexp{});
    s.error({s.integers({2}, 0, 9)}, Frexp{}, "needs a floating dtype");
  }
};

template <class Op> Tensor paired(const Op& op, const Tensor& a, const Tensor& b) {
  const Dtype dtype = common_dtype(a, b);
  return apply(op, cast(a, dtype), cast(b, dtype));
}

}  // namespace

MANTISSA_OP(IntegerPair<Pair::left_shift>)
MANTISSA_OP(IntegerPair<Pair::right_shift>)
MANTISSA_OP(IntegerPair<Pair::gcd>)
MANTISSA_OP(IntegerPair<Pair::lcm>)
MANTISSA_OP(NextAfter)
MANTISSA_OP(Frexp)

Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) { return paired(IntegerPair<Pair::left_shift>{}, a, b); }
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) { return paired(IntegerPair<Pair::right_shift>{}, a, b); }
Tensor gcd(const Tensor& a, const Tensor& b) { return paired(IntegerPair<Pair::gcd>{}, a, b); }
Tensor lcm(const Tensor& a, const Tensor& b) { return paired(IntegerPair<Pair::lcm>{}, a, b); }
Tensor nextafter(const Tensor& a, const Tensor& b) { return paired(NextAfter{}, a, b); }
FrexpResult frexp(const Tensor& x) {
  auto [mantissa, exponent] = apply(Frexp{}, x);
  return {mantissa, exponent};
}

}  // namespace mantissa
