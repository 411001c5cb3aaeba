// The formulas of all elementwise operators, by family: core/unary_formulas.h, core/binary_formulas.h,
// core/activation_formulas.h. A formula is written once as a template over T, and instantiated for SIMD vectors
// (CPU kernels), scalars (device kernels) and Tensor (second derivatives).
//
// Rules: use T(number) for constants, select(condition, a, b) instead of ?:, and the unqualified
// functions exp, log, ... (core/formula_functions.h). Kernels load any dtype, compute in f32 (f64 for f64, i64 for
// integers where a formula says `integers`) and round once when storing.
//
// A unary formula's derivative is df(g, x) or df(g, y), as `saves` says: the gradient g times the derivative, in one
// fused kernel. To add an operator: a struct in the header of its family, its name in a list below, a line in
// core/ops.h and a line in the file of its family (ops/arithmetic.cpp, ops/rounding.cpp, ops/compare.cpp,
// ops/exponential.cpp, ops/trigonometric.cpp, ops/activation.cpp).
#pragma once

#include <type_traits>

#include "core/activation_formulas.h"
#include "core/binary_formulas.h"
#include "core/unary_formulas.h"

namespace mantissa {

// Compile-time list of types.
template <class... F> struct List { static constexpr int size = sizeof...(F); };
template <class F, class... L> constexpr int index_in(List<L...>) {
  int i = 0, at = -1;
  ((std::is_same_v<F, L> ? void(at = i) : void(), ++i), ...);
  return at;
}

namespace pointwise {

// The derivative of a unary formula as a formula of (g, saved): launched by backward. Not derived from Formula: `of`
// is, and two bases of one type would put eight bytes of padding before it.
template <class F> struct GradOf {
  static constexpr Result result = Formula::result;
  static constexpr Saves saves = Formula::saves;
  static constexpr bool integers = Formula::integers, floats = Formula::floats, flat = Formula::flat;
  F of;
  MANTISSA_F f(T g, T saved) const { return of.df(g, saved); }
};
#undef MANTISSA_F

using BinaryFormulas = List<Add, Sub, Mul, Div, Pow, Maximum, Minimum, Eq, Ne, Lt, Le, Gt, Ge, Atan2, Hypot,
                            Copysign, LogAddExp, LogAddExp2, Fmod, Remainder, FloorDivide, Prelu, RoundedDistance,
                            LogicalAnd, LogicalOr, LogicalXor, BitwiseAnd, BitwiseOr, BitwiseXor>;
using TernaryFormulas = List<Where, RoundedDistanceGrad, Lerp, Addcmul, Addcdiv>;
// Differentiable.
using UnaryFormulas = List<Neg, Abs, Square, Sqrt, Rsqrt, Exp, Log, Tanh, Sigmoid, Erf, Relu, Gelu, Silu, Clamp,
                           Exp2, Expm1, Log1p, Log2, Log10, Erfc, Erfinv, Logit, Reciprocal,
                           Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh,
                           GeluTanh, Softplus, Elu, LeakyRelu, Hardtanh, Hardsigmoid, Hardswish, Mish, Logsigmoid,
                           Softsign, Tanhshrink, Hardshrink, Softshrink, Threshold,
                           NanToNum>;
// Without a derivative.
using StepFormulas = List<Sign, Floor, Ceil, Trunc, Round, IsNan, IsInf, IsFinite, SignBit, LogicalNot, BitwiseNot>;

template <class... B, class... T, class... S, class... U>
auto all_formulas(List<B...>, List<T...>, List<S...>, List<U...>) -> List<B..., T..., S..., U..., GradOf<U>...>;
// The list that all pointwise kernels are instantiated from.
using PointwiseFormulas = decltype(all_formulas(BinaryFormulas{}, TernaryFormulas{}, StepFormulas{}, UnaryFormulas{}));

template <class F> inline constexpr int opcode = index_in<F>(PointwiseFormulas{});

}  // namespace pointwise
}  // namespace mantissa
