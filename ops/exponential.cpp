// Exponentials, logarithms and error functions. Formulas: core/pointwise.h.
#include <optional>

#include "ops/pointwise.h"

namespace mantissa {
namespace {

using namespace pointwise;

template <class F, bool base_2> struct LogSum : Binary<F, LogSum<F, base_2>> {
  using Base = Binary<F, LogSum>;
  Spec infer(const Tensor& a, const Tensor& b) const {
    check(a.is_floating() && b.is_floating(), "needs floating dtypes; convert with to(f32)");
    return Base::infer(a, b);
  }
  // Where a and b are equal (including equal infinities) each gets half of the gradient.
  static Tensor share(const Tensor& mine, const Tensor& other) {
    const Tensor none = logical_and(eq(mine, other), isinf(mine));
    const Tensor ahead = where(none, Tensor(0.0), mine - other);
    return sigmoid(base_2 ? ahead * 0.6931471805599453 : ahead);
  }
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> a, In<1> b) { return g * share(a, b); },
                 [](Grad g, In<0> a, In<1> b) { return g * share(b, a); });
  }
  static void samples(Samples& s) {
    Base::samples(s);
    s({s.uniform({7}, -1e4, 1e4), s.uniform({7}, -1e4, 1e4)}, LogSum{}).extreme = true;
    s.error({s.integers({2}, 0, 3), s.randn({2})}, LogSum{}, "needs floating dtypes");
  }
};
using LogAddExpOp = LogSum<LogAddExp, false>;
using LogAddExp2Op = LogSum<LogAddExp2, true>;

}  // namespace

MANTISSA_UNARY(Exp, exp)
MANTISSA_UNARY(Exp2, exp2)
MANTISSA_UNARY(Expm1, expm1)
MANTISSA_UNARY(Log, log)
MANTISSA_UNARY(Log1p, log1p)
MANTISSA_UNARY(Log2, log2)
MANTISSA_UNARY(Log10, log10)
MANTISSA_UNARY(Erf, erf)
MANTISSA_UNARY(Erfc, erfc)
MANTISSA_UNARY(Erfinv, erfinv)
MANTISSA_BINARY(LogAddExpOp, logaddexp)
MANTISSA_BINARY(LogAddExp2Op, logaddexp2)
MANTISSA_OP(Unary<Logit>)
Tensor logit(const Tensor& x, std::optional<double> eps) {
  check(!eps || (*eps >= 0 && *eps <= 0.5), "logit: eps must be between 0 and 0.5, got ", eps.value_or(0));
  Logit formula;
  if (eps) formula.eps = *eps;
  return apply(Unary<Logit>{formula}, x);
}

}  // namespace mantissa
