// The elementwise operators: formulas of core/pointwise.h made into operators. Unary gradients are
// derived from the formula's df; binary ones are rules.
#include "core/pointwise.h"

#include "core/ops.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y, std::span<const View* const> x)

// What formulas written over T call when T is Tensor.
inline Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b) { return where(condition, a, b); }

namespace {

using namespace pointwise;

// C++ numbers adopt the dtype of the tensors they meet; a fraction beside integers gives f32.
struct Operand { Dtype dtype; bool number; };
Dtype common_dtype(Operand a, Operand b) {
  if (a.number == b.number) return promote(a.dtype, b.dtype);
  const Dtype number = a.number ? a.dtype : b.dtype, tensor = a.number ? b.dtype : a.dtype;
  return is_floating(number) && !is_floating(tensor) ? f32 : tensor;
}
Dtype common_dtype(const Tensor& a, const Tensor& b) {
  return common_dtype({a.dtype(), a.is_weak_scalar()}, {b.dtype(), b.is_weak_scalar()});
}
Dtype common_dtype(const View& a, const View& b) {
  return common_dtype({a.dtype, a.weak_scalar}, {b.dtype, b.weak_scalar});
}
Dtype result_dtype(Result kind, Dtype promoted) {
  if (kind == Result::boolean) return boolean;
  return kind == Result::floating && !is_floating(promoted) ? f32 : promoted;
}
Dtype dtype_to_compute_in(Dtype result, Dtype promoted) {
  return compute_dtype(result == boolean ? promoted : result);
}
const Tensor& on_device(const Tensor& a, const Tensor& b) { return a.is_weak_scalar() ? b : a; }

template <class F> void run_formula(const F& f, Dtype compute, const View& y, std::span<const View* const> x) {
  kernels::pointwise(y.device, opcode<F>, static_cast<const void*>(&f), compute, y, x);
}
template <class F> constexpr CastPolicy formula_policy() {
  if constexpr (std::is_same_v<F, Exp> || std::is_same_v<F, Log> || std::is_same_v<F, Rsqrt> || std::is_same_v<F, Pow>) return CastPolicy::f32;
  else return CastPolicy::keep;
}

template <class F> struct Unary : F {
  static constexpr auto name = F::name;
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = formula_policy<F>();
  Unary() = default;
  explicit Unary(F f) : F(f) {}

  Spec infer(const Tensor& x) const { return like(x, result_dtype(F::result, x.dtype())); }
  void run(const View& y, const View& x) const {
    check(F::integers || is_floating(y.dtype), "needs a floating dtype");
    const View* inputs[] = {&x};
    run_formula<F>(*this, compute_dtype(y.dtype), y, inputs);
  }
  static constexpr auto vjp();
  static void samples(Samples& s);
};

// g * f'(x): one kernel; its own derivatives come from the formula over tensors.
template <class F> struct UnaryBackward : GradOf<F> {
  static constexpr auto name = "pointwise_backward";
  static constexpr const char* args[] = {"gradient", "saved"};
  Spec infer(const Tensor& g, const Tensor&) const { return like(g); }
  void run(const View& y, const View& g, const View& saved) const {
    const View* inputs[] = {&g, &saved};
    run_formula<GradOf<F>>(*this, compute_dtype(y.dtype), y, inputs);
  }
  static Tensor reference(const UnaryBackward& op, const Tensor& g, const Tensor& saved) { return op.of.df(g, saved); }
};
template <class F> Tensor unary_backward(const Unary<F>& op, const Tensor& g, const Tensor& saved) {
  UnaryBackward<F> backward;
  backward.of = op;
  return apply(backward, g, saved);
}
template <class F> constexpr auto Unary<F>::vjp() {
  if constexpr (F::saves == Saves::input) return rules([](const Unary& op, Grad g, In<0> x) { return unary_backward<F>(op, g, x); });
  else if constexpr (F::saves == Saves::output) return rules([](const Unary& op, Grad g, Out<0> y) { return unary_backward<F>(op, g, y); });
  else return rules([](const Unary& op, Grad g) { return unary_backward<F>(op, g, g); });
}

template <class F, class Self> struct Binary : F {
  static constexpr auto name = F::name;
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = formula_policy<F>();

  Spec infer(const Tensor& a, const Tensor& b) const {
    const Dtype promoted = common_dtype(a, b);
    return {broadcast(a.sizes(), b.sizes()), result_dtype(F::result, promoted), on_device(a, b).device()};
  }
  void run(const View& y, const View& a, const View& b) const {
    const Dtype compute = dtype_to_compute_in(y.dtype, common_dtype(a, b));
    const View* inputs[] = {&a, &b};
    run_formula<F>(*this, compute, y, inputs);
  }
  static void samples(Samples& s);
};

// --- gradients of the binary operators ---
struct AddOp : Binary<Add, AddOp> {
  static constexpr auto vjp() { return rules([](Grad g) -> Tensor { return g; }, [](Grad g) -> Tensor { return g; }); }
};
struct SubOp : Binary<Sub, SubOp> {
  static constexpr auto vjp() { return rules([](Grad g) -> Tensor { return g; }, [](Grad g) { return -g; }); }
};
struct MulOp : Binary<Mul, MulOp> {
  static constexpr auto vjp() { return rules([](Grad g, In<1> b) { return g * b; }, [](Grad g, In<0> a) { return g * a; }); }
};
struct DivOp : Binary<Div, DivOp> {
  static constexpr auto vjp() {
    return rules([](Grad g, In<1> b) { return g / b; }, [](Grad g, In<1> b, Out<0> y) { return -(g * y / b); });
  }
};
struct PowOp : Binary<Pow, PowOp> {
  static constexpr auto vjp() {
    return rules(
        [](Grad g, In<0> a, In<1> b) { return where(b == 0.0, Tensor(0.0), g * b * pow(a, less_one(b))); },
        [](Grad g, In<0> a, Out<0> y) { return where(a == 0.0, Tensor(0.0), g * y * log(a)); });  // 0^b: limit 0
  }
  // A number stays one, so that x^2.0 of an f32 tensor is differentiated in f32.
  static Tensor less_one(const Tensor& b) { return b.is_weak_scalar() ? Tensor(b.item<double>() - 1) : b - 1.0; }
};
// The gradient goes to the larger; equal values share it.
struct MaximumOp : Binary<Maximum, MaximumOp> {
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> a, In<1> b) { return g * (0.5 * (cast(a > b, g.dtype()) + cast(a >= b, g.dtype()))); },
                 [](Grad g, In<0> a, In<1> b) { return g * (0.5 * (cast(b > a, g.dtype()) + cast(b >= a, g.dtype()))); });
  }
};
struct MinimumOp : Binary<Minimum, MinimumOp> {
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> a, In<1> b) { return g * (0.5 * (cast(a < b, g.dtype()) + cast(a <= b, g.dtype()))); },
                 [](Grad g, In<0> a, In<1> b) { return g * (0.5 * (cast(b < a, g.dtype()) + cast(b <= a, g.dtype()))); });
  }
};
template <class F> struct CompareOp : Binary<F, CompareOp<F>> { static constexpr bool differentiable = false; };

struct WhereOp : Where {
  static constexpr const char* args[] = {"condition", "a", "b"};
  Spec infer(const Tensor& c, const Tensor& a, const Tensor& b) const {
    check(c.dtype() == boolean, "the condition must be bool; compare with something, as in x != 0");
    return {broadcast(c.sizes(), broadcast(a.sizes(), b.sizes())), common_dtype(a, b), c.device()};
  }
  void run(const View& y, const View& c, const View& a, const View& b) const {
    const View* inputs[] = {&c, &a, &b};
    run_formula<Where>(*this, compute_dtype(y.dtype), y, inputs);
  }
  static constexpr auto vjp() {
    return rules(no_gradient, [](Grad g, In<0> c) { return where(c, g, Tensor(0.0)); },
                 [](Grad g, In<0> c) { return where(c, Tensor(0.0), g); });
  }
  static void samples(Samples& s) {
    s({s.booleans({3, 5}), s.randn({3, 5}), s.randn({3, 5})}, WhereOp{});
    s({s.booleans({3, 1}), s.randn({5}), s.randn({2, 1, 1})}, WhereOp{});
    s({s.booleans({}), s.randn({}), s.randn({})}, WhereOp{});
    s.error({s.randn({2}), s.randn({2}), s.randn({2})}, WhereOp{}, "the condition must be bool");
    s.error({s.booleans({3}), s.randn({2}), s.randn({2})}, WhereOp{}, "do not broadcast");
  }
};

// --- samples ---
template <class F> Tensor input_for(Samples& s, const Dims& sizes) {
  constexpr bool positive = std::is_same_v<F, Sqrt> || std::is_same_v<F, Rsqrt> || std::is_same_v<F, Log> || std::is_same_v<F, Pow>;
  return positive ? s.uniform(sizes, 0.2, 3) : s.randn(sizes);
}
template <class F> F sample_formula() {
  F f;
  if constexpr (std::is_same_v<F, Clamp>) f.low = -0.5, f.high = 0.75;
  return f;
}
template <class F> void Unary<F>::samples(Samples& s) {
  const Unary op(sample_formula<F>());
  s({input_for<F>(s, {3, 7})}, op);
  s({input_for<F>(s, {})}, op);
  s({input_for<F>(s, {0, 4})}, op);
  s({input_for<F>(s, {2, 1030})}, op);
  if constexpr (!F::integers && F::result != Result::floating) s.error({s.booleans({2})}, op, "needs a floating dtype");
}
template <class F, class Self> void Binary<F, Self>::samples(Samples& s) {
  const auto call = [&](const Dims& a, const Dims& b) {
    if constexpr (std::is_same_v<F, Div>) s({s.randn(a), s.uniform(b, 0.5, 2)}, Self{});
    else s({input_for<F>(s, a), s.randn(b)}, Self{});
  };
  call({3, 5}, {3, 5});
  call({4, 1, 3}, {2, 1});
  call({}, {3});
  call({}, {});
  call({0, 3}, {3});
  call({700}, {2, 700});
  s.error({s.randn({2, 3}), s.randn({4})}, Self{}, "sizes [2, 3] and [4] do not broadcast");
}

}  // namespace

// --- registry and public functions ---
#define MANTISSA_UNARY(Formula, function)   \
  MANTISSA_OP(Unary<Formula>)               \
  Tensor function(const Tensor& x) { return apply(Unary<Formula>{}, x); }
MANTISSA_UNARY(Neg, neg)
MANTISSA_UNARY(Abs, abs)
MANTISSA_UNARY(Square, square)
MANTISSA_UNARY(Sqrt, sqrt)
MANTISSA_UNARY(Rsqrt, rsqrt)
MANTISSA_UNARY(Exp, exp)
MANTISSA_UNARY(Log, log)
MANTISSA_UNARY(Tanh, tanh)
MANTISSA_UNARY(Sigmoid, sigmoid)
MANTISSA_UNARY(Erf, erf)
MANTISSA_UNARY(Relu, relu)
MANTISSA_UNARY(Gelu, gelu)
MANTISSA_UNARY(Silu, silu)
MANTISSA_OP(Unary<Clamp>)
Tensor clamp(const Tensor& x, double low, double high) {
  check(low <= high, "clamp: low ", low, " is above high ", high);
  Unary<Clamp> op;
  op.low = low;
  op.high = high;
  return apply(op, x);
}

#define MANTISSA_BINARY(Op, function) \
  MANTISSA_OP(Op)                     \
  Tensor function(const Tensor& a, const Tensor& b) { return apply(Op{}, a, b); }
MANTISSA_BINARY(AddOp, add)
MANTISSA_BINARY(SubOp, sub)
MANTISSA_BINARY(MulOp, mul)
MANTISSA_BINARY(DivOp, div)
MANTISSA_BINARY(PowOp, pow)
MANTISSA_BINARY(MaximumOp, maximum)
MANTISSA_BINARY(MinimumOp, minimum)
MANTISSA_BINARY(CompareOp<Eq>, eq)
MANTISSA_BINARY(CompareOp<Ne>, ne)
MANTISSA_BINARY(CompareOp<Lt>, lt)
MANTISSA_BINARY(CompareOp<Le>, le)
MANTISSA_BINARY(CompareOp<Gt>, gt)
MANTISSA_BINARY(CompareOp<Ge>, ge)
MANTISSA_OP(WhereOp)
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) { return apply(WhereOp{}, condition, a, b); }

}  // namespace mantissa
