// Comparisons, logic and bits: nothing here has a gradient.
#include "ops/pointwise.h"

namespace mantissa {
namespace {

using namespace pointwise;

void bitwise_not_of_bool(Samples& s) {
  s.call({s.booleans({7})}, [](const Tensors& x) { return bitwise_not(x[0]); });
}
struct BitwiseNotOp : Unary<BitwiseNot> {
  static void samples(Samples& s) {
    Unary<BitwiseNot>::samples(s);
    bitwise_not_of_bool(s);
  }
};

}  // namespace

MANTISSA_BINARY(PlainBinary<Eq>, eq)
MANTISSA_BINARY(PlainBinary<Ne>, ne)
MANTISSA_BINARY(PlainBinary<Lt>, lt)
MANTISSA_BINARY(PlainBinary<Le>, le)
MANTISSA_BINARY(PlainBinary<Gt>, gt)
MANTISSA_BINARY(PlainBinary<Ge>, ge)
MANTISSA_BINARY(PlainBinary<LogicalAnd>, logical_and)
MANTISSA_BINARY(PlainBinary<LogicalOr>, logical_or)
MANTISSA_BINARY(PlainBinary<LogicalXor>, logical_xor)
MANTISSA_BINARY(PlainBinary<BitwiseAnd>, bitwise_and)
MANTISSA_BINARY(PlainBinary<BitwiseOr>, bitwise_or)
MANTISSA_BINARY(PlainBinary<BitwiseXor>, bitwise_xor)
MANTISSA_UNARY(SignBit, signbit)
MANTISSA_UNARY(LogicalNot, logical_not)
MANTISSA_UNARY(IsNan, isnan)
MANTISSA_UNARY(IsInf, isinf)
MANTISSA_UNARY(IsFinite, isfinite)
MANTISSA_OP(BitwiseNotOp)
// For bool the complement is logical negation; complementing its bits would make every value true.
Tensor bitwise_not(const Tensor& x) { return x.dtype() == boolean ? logical_not(x) : apply(BitwiseNotOp{}, x); }

}  // namespace mantissa
