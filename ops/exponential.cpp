// Exponentials, logarithms and error functions. Formulas: core/pointwise.h.
#include "ops/pointwise.h"

namespace mantissa {

using namespace pointwise;

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

}  // namespace mantissa
