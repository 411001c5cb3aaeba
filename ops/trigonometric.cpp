// Trigonometric and hyperbolic functions and their inverses. Formulas: core/pointwise.h.
#include "ops/pointwise.h"

namespace mantissa {
namespace {

using namespace pointwise;

// The gradient at the origin is 0.
struct Atan2Op : Binary<Atan2, Atan2Op> {
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> a, In<1> b) { return g * b * scale(g, a, b); },
                 [](Grad g, In<0> a, In<1> b) { return -(g * a * scale(g, a, b)); });
  }
  static Tensor scale(const Tensor& g, const Tensor& a, const Tensor& b) {
    // In the result's dtype: the square of an integer may overflow its own.
    const Tensor r = square(cast(a, g.dtype())) + square(cast(b, g.dtype())), zero = eq(r, Tensor(0.0));
    return where(zero, Tensor(0.0), reciprocal(where(zero, Tensor(1.0), r)));
  }
};

}  // namespace

MANTISSA_UNARY(Sin, sin)
MANTISSA_UNARY(Cos, cos)
MANTISSA_UNARY(Tan, tan)
MANTISSA_UNARY(Asin, asin)
MANTISSA_UNARY(Acos, acos)
MANTISSA_UNARY(Atan, atan)
MANTISSA_UNARY(Sinh, sinh)
MANTISSA_UNARY(Cosh, cosh)
MANTISSA_UNARY(Tanh, tanh)
MANTISSA_UNARY(Asinh, asinh)
MANTISSA_UNARY(Acosh, acosh)
MANTISSA_UNARY(Atanh, atanh)
MANTISSA_BINARY(Atan2Op, atan2)

}  // namespace mantissa
