#include "ops/onnx_formulas.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

namespace mantissa {
namespace {

// Writes nodes; all values have one dtype.
struct Writer {
  OnnxCall& c;
  Dtype dtype;
  OnnxId x, y;                // the inputs
  std::span<const double> a;  // attributes

  OnnxId k(double v) const { return c.number(v, dtype); }
  OnnxId operator()(const char* type, OnnxId v, std::vector<OnnxAttribute> attributes = {}) const {
    return c.node(type, {v}, std::move(attributes));
  }
  OnnxId add(OnnxId p, OnnxId q) const { return c.node("Add", {p, q}); }
  OnnxId sub(OnnxId p, OnnxId q) const { return c.node("Sub", {p, q}); }
  OnnxId mul(OnnxId p, OnnxId q) const { return c.node("Mul", {p, q}); }
  OnnxId div(OnnxId p, OnnxId q) const { return c.node("Div", {p, q}); }
  OnnxId pick(OnnxId condition, OnnxId p, OnnxId q) const { return c.node("Where", {condition, p, q}); }
  OnnxId clip(OnnxId v, double low, double high) const {
    const OnnxId from = std::isinf(low) ? -1 : k(low), to = std::isinf(high) ? -1 : k(high);
    return c.node("Clip", {v, from, to});
  }
  OnnxId is_negative(OnnxId v) const {  // also true for -0
    const OnnxId zero = c.node("Equal", {v, k(0)}), below = c.node("Less", {v, k(0)});
    return c.node("Or", {below, c.node("Less", {(*this)("Reciprocal", pick(zero, v, k(1))), k(0)})});
  }
  // log(exp(scale x) + exp(scale y)) / scale
  OnnxId log_sum(double scale) const {
    const OnnxId large = c.node("Max", {x, y}), small = c.node("Min", {x, y});
    const OnnxId apart = pick(c.node("Equal", {x, y}), k(0), sub(small, large));
    const OnnxId rest = (*this)("Log", add(k(1), (*this)("Exp", mul(apart, k(scale)))));
    return add(large, mul(rest, k(1 / scale)));
  }
  OnnxId phi(OnnxId inner) const { return mul(mul(k(0.5), x), add(k(1), inner)); }  // of gelu
};
// An ONNX operator with the same meaning; inputs and results have one dtype.
struct Same {
  std::string_view formula;
  const char* type;
};
constexpr Same same[] = {
    {"add", "Add"},
    {"sub", "Sub"},
    {"mul", "Mul"},
    {"div", "Div"},
    {"pow", "Pow"},
    {"maximum", "Max"},
    {"minimum", "Min"},
    {"neg", "Neg"},
    {"abs", "Abs"},
    {"sqrt", "Sqrt"},
    {"exp", "Exp"},
    {"log", "Log"},
    {"tanh", "Tanh"},
    {"sigmoid", "Sigmoid"},
    {"erf", "Erf"},
    {"relu", "Relu"},
    {"reciprocal", "Reciprocal"},
    {"sin", "Sin"},
    {"cos", "Cos"},
    {"tan", "Tan"},
    {"asin", "Asin"},
    {"acos", "Acos"},
    {"atan", "Atan"},
    {"sinh", "Sinh"},
    {"cosh", "Cosh"},
    {"asinh", "Asinh"},
    {"acosh", "Acosh"},
    {"atanh", "Atanh"},
    {"hardswish", "HardSwish"},
    {"softsign", "Softsign"},
    {"sign", "Sign"},
    {"floor", "Floor"},
    {"ceil", "Ceil"},
    {"round", "Round"},
    // with a bool result
    {"eq", "Equal"},
    {"lt", "Less"},
    {"le", "LessOrEqual"},
    {"gt", "Greater"},
    {"ge", "GreaterOrEqual"},
    {"isnan", "IsNaN"},
    {"isinf", "IsInf"},
};
// With inputs that are or are cast to bool.
constexpr Same logic[] = {{"logical_and", "And"}, {"logical_or", "Or"}, {"logical_xor", "Xor"}, {"logical_not", "Not"}};
constexpr Same bits[] = {{"bitwise_and", "And"}, {"bitwise_or", "Or"}, {"bitwise_xor", "Xor"}, {"bitwise_not", "Not"}};

const char* name_of_bits(std::string_view of_bool) {
  if (of_bool == "And") return "BitwiseAnd";
  return of_bool == "Or" ? "BitwiseOr" : of_bool == "Xor" ? "BitwiseXor" : "BitwiseNot";
}

struct Composed {
  std::string_view formula;
  OnnxId (*write)(const Writer& w);
};
constexpr double ln2 = std::numbers::ln2, ln10 = std::numbers::ln10;
const Composed composed[] = {
    {"ne",
     [](const Writer& w) {
       return w("Not", w.c.node("Equal", {w.x, w.y}));
     }},
    {"fmod",
     [](const Writer& w) {
       return w.c.node("Mod", {w.x, w.y}, {{"fmod", 1}});
     }},
    {"remainder",
     [](const Writer& w) {
       if (!is_floating(w.dtype)) return w.c.node("Mod", {w.x, w.y});
       return w.sub(w.x, w.mul(w("Floor", w.div(w.x, w.y)), w.y));
     }},
    {"floor_divide",
     [](const Writer& w) {
       if (!is_floating(w.dtype)) return w.div(w.sub(w.x, w.c.node("Mod", {w.x, w.y})), w.y);
       const auto is = [&](const char* what, OnnxId v) { return w.c.node(what, {v, w.k(0)}); };
       const OnnxId rest = w.c.node("Mod", {w.x, w.y}, {{"fmod", 1}});
       const OnnxId whole = w("Round", w.div(w.sub(w.x, rest), w.y));
       const OnnxId other_sign = w.c.node("Xor", {is("Less", rest), is("Less", w.y)});
       const OnnxId down = w.c.node("And", {w("Not", is("Equal", rest)), other_sign});
       return w.pick(is("Equal", w.y), w.div(w.x, w.y), w.pick(down, w.sub(whole, w.k(1)), whole));
     }},
    {"nan_to_num",  // (nan, posinf, neginf)
     [](const Writer& w) {
       const auto is = [&](double v) { return w.c.node("Equal", {w.x, w.k(v)}); };
       const OnnxId below = w.pick(is(-INFINITY), w.k(w.a[2]), w.x), finite = w.pick(is(INFINITY), w.k(w.a[1]), below);
       return w.pick(w("IsNaN", w.x), w.k(w.a[0]), finite);
     }},
    {"square", [](const Writer& w) { return w.mul(w.x, w.x); }},
    {"rsqrt", [](const Writer& w) { return w("Reciprocal", w("Sqrt", w.x)); }},
    {"gelu",
     [](const Writer& w) {
       if (w.c.opset() >= 20) return w("Gelu", w.x);
       return w.phi(w("Erf", w.mul(w.x, w.k(std::numbers::sqrt2 / 2))));
     }},
    {"gelu_tanh",
     [](const Writer& w) {
       if (w.c.opset() >= 20) return w("Gelu", w.x, {{"approximate", "tanh"}});
       const OnnxId cube = w.mul(w.mul(w.x, w.x), w.x);
       return w.phi(w("Tanh", w.mul(w.k(0.7978845608028654), w.add(w.x, w.mul(w.k(0.044715), cube)))));
     }},
    {"silu", [](const Writer& w) { return w.mul(w.x, w("Sigmoid", w.x)); }},
    {"clamp", [](const Writer& w) { return w.clip(w.x, w.a[0], w.a[1]); }},
    {"hardtanh", [](const Writer& w) { return w.clip(w.x, w.a[0], w.a[1]); }},
    {"exp2",
     [](const Writer& w) {
       return w.c.node("Pow", {w.k(2), w.x});
     }},
    {"expm1", [](const Writer& w) { return w.sub(w("Exp", w.x), w.k(1)); }},
    {"log1p", [](const Writer& w) { return w("Log", w.add(w.x, w.k(1))); }},
    {"log2", [](const Writer& w) { return w.mul(w("Log", w.x), w.k(1 / ln2)); }},
    {"log10", [](const Writer& w) { return w.mul(w("Log", w.x), w.k(1 / ln10)); }},
    {"erfc", [](const Writer& w) { return w.sub(w.k(1), w("Erf", w.x)); }},
    {"hypot",
     [](const Writer& w) {
       const OnnxId a = w("Abs", w.x), b = w("Abs", w.y), large = w.c.node("Max", {a, b});
       const OnnxId none = w.c.node("Or", {w.c.node("Equal", {large, w.k(0)}), w("IsInf", large)});
       const OnnxId scale = w.pick(none, w.k(1), large), p = w.div(a, scale), q = w.div(b, scale);
       return w.pick(none, large, w.mul(scale, w("Sqrt", w.add(w.mul(p, p), w.mul(q, q)))));
     }},
    {"copysign",
     [](const Writer& w) {
       const OnnxId size = w("Abs", w.x);
       return w.pick(w.is_negative(w.y), w("Neg", size), size);
     }},
    {"signbit",
     [](const Writer& w) {
       if (!is_floating(w.dtype)) return w.c.node("Less", {w.c.in(0, i64), w.c.number(0, i64)});
       return w.is_negative(w.x);
     }},
    {"logaddexp", [](const Writer& w) { return w.log_sum(1); }},
    {"logaddexp2", [](const Writer& w) { return w.log_sum(ln2); }},
    {"logit",  // (eps)
     [](const Writer& w) {
       const OnnxId z = w.a[0] >= 0 ? w.clip(w.x, w.a[0], 1 - w.a[0]) : w.x;
       return w.sub(w("Log", z), w("Log", w.sub(w.k(1), z)));
     }},
    {"softplus",  // (beta, threshold): beyond 20 it is x up to rounding
     [](const Writer& w) {
       const OnnxId z = w.a[0] == 1 ? w.x : w.mul(w.x, w.k(w.a[0]));
       const OnnxId y = w.a[0] == 1 ? w("Softplus", z) : w.div(w("Softplus", z), w.k(w.a[0]));
       return w.a[1] >= 20 ? y : w.pick(w.c.node("Greater", {z, w.k(w.a[1])}), w.x, y);
     }},
    {"elu",  // (alpha, scale, input_scale)
     [](const Writer& w) {
       const double alpha = w.a[0], scale = w.a[1], inner = w.a[2];
       if (inner == 1 && scale == 1) return w("Elu", w.x, {{"alpha", alpha}});
       if (inner == 1) return w("Selu", w.x, {{"alpha", alpha}, {"gamma", scale}});
       const OnnxId below = w.mul(w.sub(w("Exp", w.mul(w.x, w.k(inner))), w.k(1)), w.k(alpha * scale));
       return w.pick(w.c.node("Greater", {w.x, w.k(0)}), w.mul(w.x, w.k(scale)), below);
     }},
    {"leaky_relu",
     [](const Writer& w) {
       return w("LeakyRelu", w.x, {{"alpha", w.a[0]}});
     }},
    {"hardsigmoid",
     [](const Writer& w) {
       return w("HardSigmoid", w.x, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
     }},
    {"mish", [](const Writer& w) { return w.mul(w.x, w("Tanh", w("Softplus", w.x))); }},
    {"logsigmoid", [](const Writer& w) { return w("Neg", w("Softplus", w("Neg", w.x))); }},
    {"tanhshrink", [](const Writer& w) { return w.sub(w.x, w("Tanh", w.x)); }},
    {"hardshrink",
     [](const Writer& w) {
       return w("Shrink", w.x, {{"lambd", w.a[0]}, {"bias", 0.0}});
     }},
    {"softshrink",
     [](const Writer& w) {
       return w("Shrink", w.x, {{"lambd", w.a[0]}, {"bias", w.a[0]}});
     }},
    {"threshold",  // (threshold, value)
     [](const Writer& w) {
       return w.pick(w.c.node("LessOrEqual", {w.x, w.k(w.a[0])}), w.k(w.a[1]), w.x);
     }},
    {"trunc", [](const Writer& w) { return w.mul(w("Sign", w.x), w("Floor", w("Abs", w.x))); }},
    {"isfinite",
     [](const Writer& w) {
       return w("Not", w.c.node("Or", {w("IsNaN", w.x), w("IsInf", w.x)}));
     }},
};

template <std::size_t n> const Same* find(const Same (&list)[n], std::string_view name) {
  const auto at = std::ranges::find(list, name, &Same::formula);
  return at == std::end(list) ? nullptr : &*at;
}

}  // namespace

void formula_for_onnx(OnnxCall& c, const char* name, std::span<const double> attributes, Dtype common) {
  const auto apply_same = [&](const Same& s, Dtype dtype) {
    c.result(c.node(s.type, {c.in(0, dtype), c.inputs() > 1 ? c.in(1, dtype) : -1}));
  };
  const bool is_bool = c.y().dtype() == boolean;
  if (const Same* s = find(logic, name)) return apply_same(*s, boolean);
  if (const Same* s = find(bits, name)) {
    if (is_bool) return apply_same(*s, boolean);
    if (c.opset() < 18) c.refuse("bits of integers need opset 18");
    return apply_same({s->formula, name_of_bits(s->type)}, c.y().dtype());
  }
  const std::string_view step = name;
  if (!is_floating(c.y().dtype()) && (step == "floor" || step == "ceil" || step == "round" || step == "trunc"))
    return c.result(c.in(0));
  // Integer inputs of a formula with a floating result are cast first.
  const bool asks_floats = std::string_view(name).starts_with("is");
  const Dtype dtype = asks_floats && !is_floating(common) ? f32 : is_bool ? common : c.y().dtype();
  if (const Same* s = find(same, name)) {
    const bool of_bool = dtype == boolean && std::string_view(s->type) != "Equal";
    return apply_same(*s, of_bool ? i64 : dtype);
  }
  for (const Composed& f : composed) {
    if (f.formula != name) continue;
    return c.result(f.write({c, dtype, c.in(0, dtype), c.inputs() > 1 ? c.in(1, dtype) : -1, attributes}));
  }
  c.refuse("it has no translation (ops/onnx_formulas.cpp)");
}

}  // namespace mantissa
