// Turns the formulas in core/pointwise.h into operators: Unary<F>, whose gradient comes from the formula's df, and
// Binary<F, Self>, whose gradient rules Self defines. One file per family: arithmetic, rounding, compare, exponential,
// trigonometric, activation.
#pragma once

#include <cmath>

#include "core/formula_recorder.h"
#include "core/ops.h"
#include "core/pointwise.h"
#include "ops/apply.h"
#include "ops/onnx_formulas.h"
#include "ops/promotion.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)

// Called by formulas templated on T when T is Tensor.
inline Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b) { return where(condition, a, b); }

namespace pointwise {

template <class F, class... Any> inline constexpr bool is_any = (std::is_same_v<F, Any> || ...);
// What a product calls this formula, if it can apply its derivative.
template <class F> constexpr Activation activation_of() {
  if constexpr (std::is_same_v<F, Relu>) return Activation::relu;
  else if constexpr (std::is_same_v<F, Gelu>) return Activation::gelu;
  else if constexpr (std::is_same_v<F, GeluTanh>) return Activation::gelu_tanh;
  else return Activation::none;
}

inline Dtype result_dtype(Result kind, Dtype promoted) {
  if (kind == Result::boolean) return boolean;
  return kind == Result::floating && !is_floating(promoted) ? f32 : promoted;
}
inline Dtype dtype_to_compute_in(Dtype result, Dtype promoted) {
  return compute_dtype(result == boolean ? promoted : result);
}
// Clamp with these bounds, with errors in the name of `op`; for integers infinite bounds become the dtype's limits.
Clamp clamp_formula(const char* op, bool integers, double low, double high);
bool whole_bounds(double low, double high);  // neither has a fractional part
// A 0-d CPU tensor may be mixed with GPU tensors: its value is passed with the kernel launch.
inline const Tensor& on_device(const Tensor& a, const Tensor& b) {
  return a.is_weak_scalar() || (a.dim() == 0 && a.device().is_cpu()) ? b : a;
}

template <class F> void run_formula(const F& f, Dtype compute, const View& y, std::span<const View* const> x) {
  kernels::pointwise(y.device, opcode<F>, static_cast<const void*>(&f), compute, y, x);
  if (formula_recorder) [[unlikely]] formula_recorder->formula(opcode<F>, &f, sizeof f, compute, y, x);
}
// PyTorch's autocast lists for CUDA.
template <class F> constexpr CastPolicy formula_policy() {
  if constexpr (is_any<F, Exp, Expm1, Log, Log1p, Log2, Log10, Rsqrt, Reciprocal, Pow, Erfinv, Logit, Acos, Asin,
                       Cosh, Sinh, Tan, Softplus, Square>)
    return CastPolicy::f32;
  else if constexpr (is_any<F, Atan2>) return CastPolicy::promote;
  else if constexpr (is_any<F, Prelu>) return CastPolicy::lower;
  else return CastPolicy::keep;
}
template <class F> constexpr bool can_have_gradient() { return F::floats && F::result != Result::boolean; }

template <class F> struct Unary : F {
  static constexpr auto name = F::name;
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = formula_policy<F>();
  static constexpr bool differentiable = can_have_gradient<F>();
  static constexpr bool twice_differentiable = differentiable && !F::flat;
  static constexpr Activation fusible = activation_of<F>();
  Unary() = default;
  explicit Unary(F f) : F(f) {}

  Spec infer(const Tensor& x) const {
    check(F::floats || !x.is_floating(), "needs an integer or bool dtype");
    return like_layout(x, result_dtype(F::result, x.dtype()));
  }
  void run(const View& y, const View& x) const {
    const Dtype compute = dtype_to_compute_in(y.dtype, x.dtype);
    check(F::integers || is_floating(compute), "needs a floating dtype");
    const View* inputs[] = {&x};
    run_formula<F>(*this, compute, y, inputs);
  }
  static constexpr auto vjp();
  void onnx(OnnxCall& c) const { formula_for_onnx<F>(c, *this, c.x(0).dtype()); }
  static void samples(Samples& s);
};

// The formula's derivative as tensor operators, from which the second derivative is made. Where exp overflows, the
// derivative is already 0 or 1, but differentiating its expression would give inf / inf: therefore sigmoid replaces the
// quotient, and exp is applied only to the side that does not overflow.
template <class F> Tensor derivative_over_tensors(const F& f, const Tensor& g, const Tensor& saved) {
  if constexpr (is_any<F, Logsigmoid>) return g * sigmoid(-saved);
  else if constexpr (is_any<F, Silu>) {
    const Tensor s = sigmoid(saved);
    return g * (s * (1 + saved * (1 - s)));
  } else if constexpr (is_any<F, Softplus>) {
    const Tensor z = saved * f.beta;
    return where(z > f.threshold, g, g * sigmoid(z));
  } else if constexpr (is_any<F, Mish>) {
    const Tensor n = F::power(saved), t = n / (n + 2);
    return g * (t + saved * (1 - t * t) * sigmoid(saved));
  } else if constexpr (is_any<F, Elu>) {
    const Tensor curved = where(saved > 0, Tensor(0.0), saved) * f.input_scale;
    return where(saved > 0, g * f.scale, g * (exp(curved) * (f.alpha * f.scale * f.input_scale)));
  } else return f.df(g, saved);
}
// g * f'(x): one kernel; its own derivatives come from the formula over tensors.
template <class F> struct UnaryBackward : GradOf<F> {
  static constexpr auto name = "pointwise_backward";
  static constexpr const char* args[] = {"gradient", "saved"};
  Spec infer(const Tensor& g, const Tensor& saved) const { return in_layout_of(like(g), g, saved); }
  void run(const View& y, const View& g, const View& saved) const {
    const View* inputs[] = {&g, &saved};
    run_formula<GradOf<F>>(*this, compute_dtype(y.dtype), y, inputs);
  }
  static Tensor reference(const UnaryBackward& op, const Tensor& g, const Tensor& saved) {
    return derivative_over_tensors(op.of, g, saved);
  }
};
// For gradient rules that no longer need g and `saved`, whose memory may be reused.
template <class F> Tensor unary_backward(const Unary<F>& op, const Tensor& g, const Tensor& saved) {
  UnaryBackward<F> backward;
  backward.of = op;
  return apply_over({&g, &saved}, backward, g, saved);
}
template <class F> constexpr auto Unary<F>::vjp() {
  if constexpr (!can_have_gradient<F>()) return rules(no_gradient);
  else if constexpr (F::flat) return rules([](Grad g) { return zeros_like(g); });
  else if constexpr (F::saves == Saves::input)
    return rules([](const Unary& op, Grad g, In<0> x) { return unary_backward<F>(op, g, x); });
  else if constexpr (F::saves == Saves::output)
    return rules([](const Unary& op, Grad g, Out<0> y) { return unary_backward<F>(op, g, y); });
  else return rules([](const Unary& op, Grad g) { return unary_backward<F>(op, g, g); });
}

template <class F, class Self> struct Binary : F {
  static constexpr bool takes_host_numbers = true;
  static constexpr auto name = F::name;
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = formula_policy<F>();

  Spec infer(const Tensor& a, const Tensor& b) const {
    const Dtype promoted = common_dtype(a, b);
    check(F::floats || !is_floating(promoted), "needs integer or bool dtypes");
    return in_layout_of({broadcast(a.sizes(), b.sizes()), result_dtype(F::result, promoted), on_device(a, b).device()},
                        a, b);
  }
  void run(const View& y, const View& a, const View& b) const {
    const Dtype compute = dtype_to_compute_in(y.dtype, common_dtype(a, b));
    const View* inputs[] = {&a, &b};
    run_formula<F>(*this, compute, y, inputs);
  }
  void onnx(OnnxCall& c) const { formula_for_onnx<F>(c, *this, common_dtype(c.x(0), c.x(1))); }
  static void samples(Samples& s);
};
// Not differentiable: comparisons, logic.
template <class F> struct PlainBinary : Binary<F, PlainBinary<F>> { static constexpr bool differentiable = false; };

// --- samples ---
// Inputs inside the domain, away from slopes too steep for finite differences.
template <class F> Tensor input_for(Samples& s, const Dims& sizes) {
  if constexpr (!F::floats) return s.integers(sizes, -9, 10);
  else if constexpr (is_any<F, Sqrt, Rsqrt, Log, Log2, Log10, Reciprocal, Pow>) return s.uniform(sizes, 0.2, 3);
  else if constexpr (is_any<F, Logit>) return s.uniform(sizes, 0.1, 0.9);
  else if constexpr (is_any<F, Acosh>) return s.uniform(sizes, 1.2, 4);
  else if constexpr (is_any<F, Log1p>) return s.uniform(sizes, -0.7, 3);
  else if constexpr (is_any<F, Asin, Acos, Atanh, Erfinv>) return s.uniform(sizes, -0.8, 0.8);
  else if constexpr (is_any<F, Tan>) return s.uniform(sizes, -1.2, 1.2);
  else if constexpr (is_any<F, Floor, Ceil, Trunc, Round, Hardsigmoid, Hardswish, Softshrink>)
    return s.uniform(sizes, -4.7, 4.7);
  else return s.randn(sizes);
}
template <class F> F sample_formula() {
  F f;
  if constexpr (is_any<F, Clamp, Hardtanh>) f.low = -0.5, f.high = 0.75;
  if constexpr (is_any<F, Softplus>) f.beta = 2, f.threshold = 3;
  if constexpr (is_any<F, Elu>) f.alpha = 1.25, f.scale = 0.75, f.input_scale = 0.5;
  if constexpr (is_any<F, LeakyRelu>) f.negative_slope = 0.125;
  if constexpr (is_any<F, Hardshrink, Softshrink>) f.lambd = 0.4375;
  if constexpr (is_any<F, NanToNum>) f.nan = 0.5, f.posinf = 3, f.neginf = -2;
  if constexpr (is_any<F, Threshold>) f.threshold = 0.0625, f.value = -1.5;
  return f;
}
template <class F> void Unary<F>::samples(Samples& s) {
  const Unary op(sample_formula<F>());
  for (const Dims& sizes : {Dims{3, 7}, Dims{}, Dims{0, 4}, Dims{2, 1030}}) s({input_for<F>(s, sizes)}, op);
  if constexpr (is_any<F, Logit>) {
    Unary clamped;
    clamped.eps = 0.125;
    s({s.uniform({9}, -0.2, 1.2)}, clamped);
  }
  if constexpr (is_any<F, NanToNum>)
    s({tensor({1.5, INFINITY, -INFINITY, NAN, -0.0}, {.dtype = f64})}, op).extreme = true;
  if constexpr (!F::integers && F::result != Result::floating) s.error({s.booleans({2})}, op, "needs a floating dtype");
  if constexpr (!F::floats) s.error({s.randn({2})}, op, "needs an integer or bool dtype");
}
template <class F, class Self> void Binary<F, Self>::samples(Samples& s) {
  const auto second = [&](const Dims& sizes) {
    if constexpr (!F::floats) return s.integers(sizes, -9, 10);
    else if constexpr (is_any<F, Div, Fmod, Remainder, FloorDivide>) return s.uniform(sizes, 0.5, 2);
    else return s.randn(sizes);
  };
  const Dims shapes[][2] = {{{3, 5}, {3, 5}}, {{4, 1, 3}, {2, 1}}, {{}, {3}},
                            {{}, {}}, {{0, 3}, {3}}, {{700}, {2, 700}}};
  for (const auto& [a, b] : shapes) s({input_for<F>(s, a), second(b)}, Self{});
  s.error({input_for<F>(s, {2, 3}), second({4})}, Self{}, "sizes [2, 3] and [4] do not broadcast");
  if constexpr (!F::floats) s.error({s.randn({2}), s.randn({2})}, Self{}, "needs integer or bool dtypes");
}

}  // namespace pointwise
}  // namespace mantissa

// Registry entry and public function. In a .cpp, inside namespace mantissa.
#define MANTISSA_UNARY(Formula, function)            \
  MANTISSA_OP(::mantissa::pointwise::Unary<Formula>) \
  Tensor function(const Tensor& x) { return apply(::mantissa::pointwise::Unary<Formula>{}, x); }
#define MANTISSA_BINARY(Op, function) \
  MANTISSA_OP(Op)                     \
  Tensor function(const Tensor& a, const Tensor& b) { return apply(Op{}, a, b); }
