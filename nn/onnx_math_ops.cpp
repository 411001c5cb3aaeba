// ONNX's arithmetic, activations, logic, reductions and products (nn/onnx_program.h).
#include <algorithm>
#include <cmath>

#include "core/ops_fft.h"
#include "core/ops_matrix.h"
#include "core/ops_numeric.h"
#include "nn/onnx_program.h"

namespace mantissa::nn::onnx {
namespace {

// Integer division truncates towards 0, as in C.
Tensor divide(const Tensor& a, const Tensor& b) {
  return a.is_floating() || b.is_floating() ? div(a, b) : floor_divide(a - fmod(a, b), b);
}
Tensor power(const Tensor& a, const Tensor& b) { return like(a, pow(a, b)); }
Tensor square_sum(const Tensor& x, const Dims& d, bool keep) { return like(x, sum(square(x), d, keep)); }
Tensor plain_sum(const Tensor& x, const Dims& d, bool keep) { return like(x, sum(x, d, keep)); }
Tensor plain_mean(const Tensor& x, const Dims& d, bool keep) {
  if (x.is_floating()) return mean(x, d, keep);
  const Tensor total = sum(x, d, keep);
  return like(x, divide(total, Tensor(x.numel() / std::max<std::int64_t>(total.numel(), 1))));
}
Tensor product(const Tensor& x, const Dims& d, bool keep) { return like(x, prod(x, d, keep)); }
Tensor l1(const Tensor& x, const Dims& d, bool keep) { return like(x, sum(abs(x), d, keep)); }
Tensor l2(const Tensor& x, const Dims& d, bool keep) { return like(x, sqrt(sum(square(x), d, keep))); }
Tensor log_sum(const Tensor& x, const Dims& d, bool keep) { return like(x, log(sum(x, d, keep))); }
Tensor log_sum_exp(const Tensor& x, const Dims& d, bool keep) {
  return like(x, logsumexp(x.is_floating() ? x : cast(x, f64), d, keep));
}
Tensor largest(const Tensor& x, const Dims& d, bool keep) {  // of an empty range: the smallest number
  if (x.numel() == 0 && x.is_floating()) return sum(x, d, keep) - HUGE_VAL;
  return x.dtype() == boolean ? any(x, d, keep) : amax(x, d, keep);
}
Tensor smallest(const Tensor& x, const Dims& d, bool keep) {
  if (x.numel() == 0 && x.is_floating()) return sum(x, d, keep) + HUGE_VAL;
  return x.dtype() == boolean ? all(x, d, keep) : amin(x, d, keep);
}

template <Tensor (*f)(const Tensor&, const Dims&, bool)> Run reduce(Node& n) {
  const bool keep = n.i("keepdims", 1) != 0, nothing = n.i("noop_with_empty_axes", 0) != 0;
  const Setting axes = n.setting("axes", 1);
  return [=](const Inputs& x) -> Tensors {
    const Integers dims = axes(x).value_or(Integers{});
    if (dims.empty() && nothing) return {f(unsqueeze(x[0], -1), {-1}, false)};  // elementwise
    return {f(x[0], dims, keep)};
  };
}
template <Tensor (*f)(const Tensor&, int, bool)> Run arg(Node& n) {
  const int axis = n.axis("axis", 0);
  const bool keep = n.i("keepdims", 1) != 0, last = n.i("select_last_index", 0) != 0;
  return [=](const Inputs& x) -> Tensors {
    if (!last) return {f(x[0], axis, keep)};
    return {(x[0].size(axis) - 1) - f(flip(x[0], {axis}), axis, keep)};
  };
}
// Folds any number of inputs.
template <Tensor (*f)(const Tensor&, const Tensor&)> Run fold(Node&) {
  return [](const Inputs& x) -> Tensors {
    Tensor y = x[0];
    for (int i = 1; i < x.count(); ++i) y = f(y, x[i]);
    return {y};
  };
}

Run clip(Node& n) {  // bounds were attributes before opset 11
  const double low = n.f("min", -HUGE_VAL), high = n.f("max", HUGE_VAL);
  return [=](const Inputs& x) -> Tensors {
    const double from = x.has(1) ? x.number(1) : low, to = x.has(2) ? x.number(2) : high;
    Tensor y = x[0];
    if (std::isinf(from) && std::isinf(to)) return {y};
    if (std::isinf(from)) return {clamp_max(y, to)};
    if (std::isinf(to)) return {clamp_min(y, from)};
    if (from > to) return {full_like(y, to)};
    return {clamp(y, from, to)};
  };
}
Run fourier(Node& n) {
  const bool inverse = n.i("inverse", 0) != 0, onesided = n.i("onesided", 0) != 0;
  if (inverse && onesided) n.refuse("DFT: half a spectrum has no inverse there");
  const std::int64_t fixed = n.opset < 20 ? n.i("axis", 1) : -2;
  return [=](const Inputs& x) -> Tensors {
    const Tensor given = x[0];
    check(given.dim() > 1 && (given.size(-1) == 1 || given.size(-1) == 2),
          "DFT: needs real numbers [..., 1] or pairs [..., 2], got ", given);
    const int dim = wrap_dim(x.has(2) ? x.integer(2) : fixed, given.dim());
    check(dim < given.dim() - 1, "DFT: axis ", dim, " is that of the pairs of ", given);
    const fft::FftOptions o{.n = x.has(1) ? x.integer(1) : given.size(dim), .dim = dim};
    const bool is_real = given.size(-1) == 1;
    if (is_real && onesided) return {fft::rfft(select(given, -1, 0), o)};
    const Tensor pairs = is_real ? to_complex(select(given, -1, 0)) : given;
    const Tensor y = inverse ? fft::ifft(pairs, o) : fft::fft(pairs, o);
    return {onesided ? narrow(y, dim, 0, *o.n / 2 + 1) : y};
  };
}
Run modulo(Node& n) {
  const bool c = n.i("fmod", 0) != 0;
  return [=](const Inputs& x) -> Tensors { return {c ? fmod(x[0], x[1]) : remainder(x[0], x[1])}; };
}
Run prelu_of(Node& n) {
  const bool old = n.opset < 7;  // a 1-d slope is per channel
  return [=](const Inputs& x) -> Tensors {
    const Tensor t = x[0], slope = x[1];
    if (old && slope.dim() == 1) return {prelu(t, slope)};
    const bool by_channel = t.dim() >= 2 && slope.dim() == t.dim() - 1 && slope.size(0) == slope.numel() &&
                            (slope.numel() == 1 || slope.numel() == t.size(1));
    if (by_channel) return {prelu(t, reshape(slope, {-1}))};
    return {where(t < 0, t * slope, t)};
  };
}
Run gelu_of(Node& n) {
  const std::string approximate = n.s("approximate", "none");
  return [=](const Inputs& x) -> Tensors { return {gelu(x[0], approximate)}; };
}
Run selu_of(Node& n) {
  const double alpha = n.f("alpha", 1.67326319217681884765625), gamma = n.f("gamma", 1.05070102214813232421875);
  return [=](const Inputs& x) -> Tensors { return {gamma * elu(x[0], alpha)}; };
}
Run hard_sigmoid(Node& n) {
  const double alpha = n.f("alpha", 0.2), beta = n.f("beta", 0.5);
  if (std::abs(alpha - 1.0 / 6) < 1e-7 && beta == 0.5) return each<hardsigmoid>(n);
  return [=](const Inputs& x) -> Tensors { return {clamp(x[0] * alpha + beta, 0, 1)}; };
}
Run shrink(Node& n) {
  const double lambd = n.f("lambd", 0.5), bias = n.f("bias", 0);
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    return {where(x < -lambd, x + bias, where(x > lambd, x - bias, zeros_like(x)))};
  };
}
Run hardmax(Node& n) {
  const std::int64_t given = n.i("axis", n.opset < 13 ? 1 : -1);
  const bool flat = n.opset < 13;
  return [=](const Inputs& in) -> Tensors {
    Tensor x = in[0];
    const int axis = wrap_dim(given, x.dim());
    if (flat) x = flatten(unsqueeze(x, 0), axis + 1);
    const int d = flat ? -1 : axis;
    const Tensor one = argmax(x, d, true);
    return {reshape(scatter(zeros_like(x), d, one, 1.0), in[0].sizes())};
  };
}
// Before opset 13: over all dimensions from the axis on, flattened.
template <Tensor (*f)(const Tensor&, int, std::optional<Dtype>)> Run softmax_of(Node& n) {
  const bool flat = n.opset < 13;
  const int given = n.axis("axis", flat ? 1 : -1);
  n.is_plain = given == -1;
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    const int axis = wrap_dim(given, x.dim());
    if (!flat || axis == x.dim() - 1) return {f(x, axis, {})};
    return {reshape(f(flatten(x, axis), -1, {}), x.sizes())};
  };
}
Run is_inf(Node& n) {
  const bool below = n.i("detect_negative", 1) != 0, above = n.i("detect_positive", 1) != 0;
  return [=](const Inputs& x) -> Tensors {
    const Tensor y = isinf(x[0]), negative = x[0] < 0;
    if (below && above) return {y};
    return {below ? logical_and(y, negative) : above ? logical_and(y, logical_not(negative)) : zeros_like(y)};
  };
}
Run shift(Node& n) {
  const std::string direction = n.s("direction", "");
  if (direction == "LEFT") return pair<bitwise_left_shift>(n);
  if (direction == "RIGHT") return pair<bitwise_right_shift>(n);
  n.refuse("of the direction ", direction);
}
template <Tensor (*f)(const Tensor&, int, std::optional<Dtype>), int none> Run cumulative(Node& n) {
  const bool exclusive = n.i("exclusive", 0) != 0, reverse = n.i("reverse", 0) != 0;
  return [=](const Inputs& in) -> Tensors {
    const int axis = wrap_dim(in.integer(1), in.all[0].dim());
    const Tensor x = reverse ? flip(in[0], {axis}) : in[0];
    Tensor y = like(x, f(x, axis, {}));
    if (exclusive) {
      const std::int64_t size = x.size(axis);
      const Tensor first = full_like(slice(x, axis, 0, std::min<std::int64_t>(size, 1)), none);
      y = cat({first, slice(y, axis, 0, std::max<std::int64_t>(size - 1, 0))}, axis);
    }
    return {reverse ? flip(y, {axis}) : y};
  };
}

// --- products ---
Tensor matmul_of(const Tensor& a, const Tensor& b) {  // linear caches its weight in the layout its kernel needs
  if (a.dim() >= 2 && b.dim() == 2 && a.is_floating()) return linear(a, transpose(b));
  return a.is_floating() || a.numel() == 0 ? matmul(a, b) : like(a, matmul(cast(a, f64), cast(b, f64)));
}
Run gemm(Node& n) {
  const double alpha = n.f("alpha", 1), beta = n.f("beta", 1);
  if (n.opset < 7) n.ignore("broadcast");
  const bool turn_a = n.i("transA", 0) != 0, turn_b = n.i("transB", 0) != 0;
  return [=](const Inputs& x) -> Tensors {
    const Tensor a = turn_a ? transpose(x[0]) : x[0], weight = turn_b ? x[1] : transpose(x[1]);
    const bool plain = alpha == 1 && beta == 1 && a.is_floating();
    if (plain && !x.has(2)) return {linear(a, weight)};
    if (plain && x[2].dim() == 1 && x[2].size(0) == weight.size(0)) return {linear(a, weight, x[2])};
    Tensor y = alpha == 1 ? matmul_of(a, transpose(weight)) : matmul_of(a, transpose(weight)) * alpha;
    if (x.has(2)) y = y + (beta == 1 ? x[2] : x[2] * beta);
    return {y};
  };
}
Run einsum_of(Node& n) {
  const std::string equation = n.s("equation", "");
  return [=](const Inputs& x) -> Tensors { return {einsum(equation, x.list())}; };
}

constexpr Operator operators[] = {
    {"Abs", 1, 1, each<abs>},
    {"Acos", 1, 1, each<acos>},
    {"Acosh", 1, 1, each<acosh>},
    {"Add", 2, 2, pair<add>},
    {"And", 2, 2, pair<logical_and>},
    {"ArgMax", 1, 1, arg<argmax>},
    {"ArgMin", 1, 1, arg<argmin>},
    {"Asin", 1, 1, each<asin>},
    {"Asinh", 1, 1, each<asinh>},
    {"Atan", 1, 1, each<atan>},
    {"Atanh", 1, 1, each<atanh>},
    {"BitShift", 2, 2, shift},
    {"BitwiseAnd", 2, 2, pair<bitwise_and>},
    {"BitwiseNot", 1, 1, each<bitwise_not>},
    {"BitwiseOr", 2, 2, pair<bitwise_or>},
    {"BitwiseXor", 2, 2, pair<bitwise_xor>},
    {"Ceil", 1, 1, each<ceil>},
    {"Celu", 1, 1,
     [](Node& n) -> Run {
       const double alpha = n.f("alpha", 1);
       return [=](const Inputs& x) -> Tensors { return {celu(x[0], alpha)}; };
     }},
    {"Clip", 1, 3, clip},
    {"Cos", 1, 1, each<cos>},
    {"Cosh", 1, 1, each<cosh>},
    {"CumProd", 2, 2, cumulative<cumprod, 1>},
    {"CumSum", 2, 2, cumulative<cumsum, 0>},
    {"Det", 1, 1, each<det>},
    {"DFT", 1, 3, fourier},
    {"Div", 2, 2, pair<divide>},
    {"Einsum", 1, any_number, einsum_of},
    {"Elu", 1, 1,
     [](Node& n) -> Run {
       const double alpha = n.f("alpha", 1);
       return [=](const Inputs& x) -> Tensors { return {elu(x[0], alpha)}; };
     }},
    {"Equal", 2, 2, pair<eq>},
    {"Erf", 1, 1, each<erf>},
    {"Exp", 1, 1, each<exp>},
    {"Floor", 1, 1, each<floor>},
    {"Gelu", 1, 1, gelu_of},
    {"Gemm", 2, 3, gemm},
    {"Greater", 2, 2, pair<gt>},
    {"GreaterOrEqual", 2, 2, pair<ge>},
    {"HardSigmoid", 1, 1, hard_sigmoid},
    {"HardSwish", 1, 1, each<hardswish>},
    {"Hardmax", 1, 1, hardmax},
    {"IsInf", 1, 1, is_inf},
    {"IsNaN", 1, 1, each<isnan>},
    {"LeakyRelu", 1, 1,
     [](Node& n) -> Run {
       const double alpha = n.f("alpha", 0.01);
       return [=](const Inputs& x) -> Tensors { return {leaky_relu(x[0], alpha)}; };
     }},
    {"Less", 2, 2, pair<lt>},
    {"LessOrEqual", 2, 2, pair<le>},
    {"Log", 1, 1, each<log>},
    {"LogSoftmax", 1, 1, softmax_of<log_softmax>},
    {"MatMul", 2, 2, pair<matmul_of>},
    {"Max", 1, any_number, fold<maximum>},
    {"Mean", 1, any_number,
     [](Node& n) -> Run {
       const double count = n.inputs();
       return [total = fold<add>(n), count](const Inputs& x) -> Tensors { return {total(x)[0] / count}; };
     }},
    {"Min", 1, any_number, fold<minimum>},
    {"Mish", 1, 1, each<mish>},
    {"Mod", 2, 2, modulo},
    {"Mul", 2, 2, pair<mul>},
    {"Neg", 1, 1, each<neg>},
    {"Not", 1, 1, each<logical_not>},
    {"Or", 2, 2, pair<logical_or>},
    {"PRelu", 2, 2, prelu_of},
    {"Pow", 2, 2, pair<power>},
    {"Reciprocal", 1, 1, each<reciprocal>},
    {"ReduceL1", 1, 2, reduce<l1>},
    {"ReduceL2", 1, 2, reduce<l2>},
    {"ReduceLogSum", 1, 2, reduce<log_sum>},
    {"ReduceLogSumExp", 1, 2, reduce<log_sum_exp>},
    {"ReduceMax", 1, 2, reduce<largest>},
    {"ReduceMean", 1, 2, reduce<plain_mean>},
    {"ReduceMin", 1, 2, reduce<smallest>},
    {"ReduceProd", 1, 2, reduce<product>},
    {"ReduceSum", 1, 2, reduce<plain_sum>},
    {"ReduceSumSquare", 1, 2, reduce<square_sum>},
    {"Relu", 1, 1, each<relu>},
    {"Round", 1, 1, each<round>},
    {"Selu", 1, 1, selu_of},
    {"Shrink", 1, 1, shrink},
    {"Sigmoid", 1, 1, each<sigmoid>},
    {"Sign", 1, 1, each<sign>},
    {"Sin", 1, 1, each<sin>},
    {"Sinh", 1, 1, each<sinh>},
    {"Softmax", 1, 1, softmax_of<softmax>},
    {"Softplus", 1, 1, [](Node&) -> Run { return [](const Inputs& x) -> Tensors { return {softplus(x[0])}; }; }},
    {"Softsign", 1, 1, each<softsign>},
    {"Sqrt", 1, 1, each<sqrt>},
    {"Sub", 2, 2, pair<sub>},
    {"Sum", 1, any_number, fold<add>},
    {"Swish", 1, 1,
     [](Node& n) -> Run {
       const double alpha = n.f("alpha", 1);
       return [=](const Inputs& x) -> Tensors { return {alpha == 1 ? silu(x[0]) : x[0] * sigmoid(x[0] * alpha)}; };
     }},
    {"Tan", 1, 1, each<tan>},
    {"Tanh", 1, 1, each<tanh>},
    {"ThresholdedRelu", 1, 1,
     [](Node& n) -> Run {
       const double alpha = n.f("alpha", 1);
       return [=](const Inputs& x) -> Tensors { return {threshold(x[0], alpha, 0)}; };
     }},
    {"Xor", 2, 2, pair<logical_xor>},
};

}  // namespace

std::span<const Operator> math_operators() { return operators; }

}  // namespace mantissa::nn::onnx
