// Step functions (sign, floor, ceil, trunc, round; their gradient is 0), clamp, nan_to_num, and fmod and remainder.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/check_values.h"
#include "ops/pointwise.h"

namespace mantissa {
namespace {

using namespace pointwise;

// Integer division by 0 throws; floats give NaN.
template <class F, class Self> struct Modulo : Binary<F, Self> {
  Spec infer(const Tensor& a, const Tensor& b) const {
    const Spec y = Binary<F, Self>::infer(a, b);
    if (!is_floating(y.dtype)) check_all(Self::name, ne(b, Tensor(0)), "an integer is divided by 0");
    return y;
  }
  static void samples(Samples& s) {
    Binary<F, Self>::samples(s);
    s({s.integers({4, 5}, -9, 10), s.integers({5}, 1, 5)}, Self{});
    s({s.integers({4, 5}, -9, 10), s.integers({5}, -5, 0)}, Self{});
    s.error({s.integers({3}, 0, 9), s.integers({3}, 0, 1)}, Self{}, "an integer is divided by 0");
  }
};
// a = n * b + r with n constant almost everywhere. A quotient in f16 or bf16 has too few digits to determine n.
Tensor quotient(const Tensor& a, const Tensor& b) {
  return (is_half(a.dtype()) ? cast(a, f32) : a) / (is_half(b.dtype()) ? cast(b, f32) : b);
}
struct FmodOp : Modulo<Fmod, FmodOp> {
  static constexpr auto vjp() {
    return rules([](Grad g) -> Tensor { return g; },
                 [](Grad g, In<0> a, In<1> b) { return -(g * trunc(quotient(a, b))); });
  }
};
struct RemainderOp : Modulo<Remainder, RemainderOp> {
  static constexpr auto vjp() {
    return rules([](Grad g) -> Tensor { return g; },
                 [](Grad g, In<0> a, In<1> b) { return -(g * floor(quotient(a, b))); });
  }
};
struct FloorDivideOp : Modulo<FloorDivide, FloorDivideOp> {
  static constexpr bool differentiable = false;  // the gradient is 0
};

}  // namespace

MANTISSA_BINARY(FmodOp, fmod)
MANTISSA_BINARY(RemainderOp, remainder)
MANTISSA_BINARY(FloorDivideOp, floor_divide)
MANTISSA_UNARY(Sign, sign)
MANTISSA_UNARY(Floor, floor)
MANTISSA_UNARY(Ceil, ceil)
MANTISSA_UNARY(Trunc, trunc)
MANTISSA_UNARY(Round, round)
MANTISSA_OP(Unary<Clamp>)
bool pointwise::whole_bounds(double low, double high) {
  const auto whole = [](double bound) { return std::isinf(bound) || std::trunc(bound) == bound; };
  return whole(low) && whole(high);
}
Clamp pointwise::clamp_formula(const char* op, bool integers, double low, double high) {
  check(low <= high, op, ": low ", low, " is above high ", high);
  Clamp f;
  constexpr double least = -0x1p63, most = 0x1.fffffffffffffp62;  // limits of i64 that a double can hold
  f.low = integers ? std::clamp(low, least, most) : low;
  f.high = integers ? std::clamp(high, least, most) : high;
  return f;
}
Tensor clamp(const Tensor& x, double low, double high) {
  const bool integers = x.defined() && !x.is_floating();
  if (integers && !whole_bounds(low, high)) return clamp(cast(x, f32), low, high);  // as in PyTorch
  return apply(Unary<Clamp>(clamp_formula("clamp", integers, low, high)), x);
}
MANTISSA_OP(Unary<NanToNum>)
Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  if (!x.is_floating()) return clone(x);
  const double most = x.dtype() == f64   ? std::numeric_limits<double>::max()
                      : x.dtype() == f32 ? static_cast<double>(std::numeric_limits<float>::max())
                      : x.dtype() == f16 ? 65504.0
                                         : 0x1.fep127;
  Unary<NanToNum> op;
  op.nan = nan;
  op.posinf = posinf.value_or(most);
  op.neginf = neginf.value_or(-most);
  return apply(op, x);
}

}  // namespace mantissa
