// Functions of three tensors: lerp, addcmul and addcdiv.
#include "core/ops.h"
#include "ops/pointwise.h"

namespace mantissa {
namespace {

// f16 and bf16 converted to f32, so that each gradient is rounded once.
Tensor wide(const Tensor& t) { return is_half(t.dtype()) ? cast(t, f32) : t; }

struct LerpOp : pointwise::Lerp {
  static constexpr bool takes_host_numbers = true;
  static constexpr const char* args[] = {"start", "end", "weight"};

  Spec infer(const Tensor& start, const Tensor& end, const Tensor& weight) const {
    check(start.is_floating() && end.is_floating(), "needs floating dtypes; convert with to(f32)");
    Meeting result = meet(Meeting(start), Meeting(end));
    if (weight.is_floating()) result = meet(result, Meeting(weight));
    const Dims sizes = broadcast(broadcast(start.sizes(), end.sizes()), weight.sizes());
    return in_layout_of({sizes, result.dtype, pointwise::on_device(weight, pointwise::on_device(start, end)).device()},
                        start, end, weight);
  }
  void run(const View& y, const View& start, const View& end, const View& weight) const {
    const View* inputs[] = {&start, &end, &weight};
    pointwise::run_formula<pointwise::Lerp>(*this, compute_dtype(y.dtype), y, inputs);
  }
  static constexpr auto vjp() {
    return rules(
        [](Grad g, In<2> weight) {
          if (weight.is_weak_scalar()) return g * Tensor(1.0 - weight.item<double>());
          return g * (1.0 - wide(weight));
        },
        [](Grad g, In<2> weight) { return g * wide(weight); },
        [](Grad g, In<0> start, In<1> end) { return g * (wide(end) - wide(start)); });
  }
  static Tensor reference(const LerpOp&, const Tensor& start, const Tensor& end, const Tensor& weight) {
    const Tensor way = end - start;
    return where(lt(abs(weight), Tensor(0.5)), start + weight * way, end - way * (1.0 - weight));
  }
  static void samples(Samples& s) {
    s({s.randn({3, 5}), s.randn({3, 5}), s.uniform({3, 5}, 0, 1)}, LerpOp{});
    s({s.randn({3, 5}), s.randn({5}), s.uniform({3, 1}, 0, 1)}, LerpOp{});
    s({s.randn({}), s.randn({}), s.uniform({}, 0, 1)}, LerpOp{});
    s({s.randn({2, 3, 4, 5}), s.randn({2, 3, 4, 5}), s.uniform({2, 3, 4, 5}, 0, 1)}, LerpOp{});
    s.call({s.randn({3, 5}), s.randn({3, 5})}, [](const Tensors& x) { return lerp(x[0], x[1], Tensor(0.75)); });
    s.error({s.integers({2}, 0, 3), s.randn({2}), s.randn({2})}, LerpOp{}, "needs floating dtypes");
    s.error({s.randn({2}), s.randn({3}), s.randn({2})}, LerpOp{}, "do not broadcast");
  }
};

// x plus value times a product or quotient; integers stay integers.
template <class F, class Self> struct Addc : F {
  static constexpr bool takes_host_numbers = true;
  static constexpr const char* args[] = {"x", "tensor1", "tensor2"};
  static constexpr auto autocast = CastPolicy::promote;

  explicit Addc(double v = 1) { this->value = v; }
  Spec infer(const Tensor& x, const Tensor& a, const Tensor& b) const {
    check(F::integers || a.is_floating() || b.is_floating(),
          "needs a floating dtype to divide in; convert with to(f32)");
    const Dtype dtype = meet(Meeting(x), meet(Meeting(a), Meeting(b))).dtype;
    check(is_floating(dtype) || this->value == 1, "value must be 1 for integers");
    const Tensor& placed = pointwise::on_device(b, pointwise::on_device(a, x));
    const Dims sizes = broadcast(broadcast(x.sizes(), a.sizes()), b.sizes());
    return in_layout_of({sizes, dtype, placed.device()}, x, a, b);
  }
  void run(const View& y, const View& x, const View& a, const View& b) const {
    const View* inputs[] = {&x, &a, &b};
    pointwise::run_formula<F>(*this, compute_dtype(y.dtype), y, inputs);
  }
  static void samples(Samples& s) {
    for (const double value : {1.0, -0.5}) {
      s({s.randn({3, 5}), s.randn({3, 5}), s.uniform({3, 5}, 0.5, 2)}, Self(value));
      s({s.randn({3, 5}), s.randn({5}), s.uniform({3, 1}, 0.5, 2)}, Self(value));
    }
    s.error({s.randn({2}), s.randn({3}), s.randn({2})}, Self(), "do not broadcast");
    const Tensor numbers = s.integers({3}, 1, 9);
    if constexpr (F::integers) {
      s({numbers, numbers, numbers}, Self());
      s.error({numbers, numbers, numbers}, Self(2), "value must be 1 for integers");
    } else {
      s.error({s.randn({3}), numbers, numbers}, Self(), "needs a floating dtype to divide in");
    }
  }
};
struct AddcmulOp : Addc<pointwise::Addcmul, AddcmulOp> {
  using Addc::Addc;
  static constexpr auto vjp() {
    return rules([](Grad g) -> Tensor { return g; },
                 [](const AddcmulOp& op, Grad g, In<2> b) { return g * (wide(b) * op.value); },
                 [](const AddcmulOp& op, Grad g, In<1> a) { return g * (wide(a) * op.value); });
  }
  static Tensor reference(const AddcmulOp& op, const Tensor& x, const Tensor& a, const Tensor& b) {
    return op.value == 1 ? x + a * b : x + op.value * (a * b);
  }
};
struct AddcdivOp : Addc<pointwise::Addcdiv, AddcdivOp> {
  using Addc::Addc;
  static constexpr auto vjp() {
    return rules([](Grad g) -> Tensor { return g; },
                 [](const AddcdivOp& op, Grad g, In<2> b) { return g * (op.value / wide(b)); },
                 [](const AddcdivOp& op, Grad g, In<1> a, In<2> b) {
                   return g * (wide(a) * -op.value / square(wide(b)));
                 });
  }
  static Tensor reference(const AddcdivOp& op, const Tensor& x, const Tensor& a, const Tensor& b) {
    return op.value == 1 ? x + a / b : x + op.value * (a / b);
  }
};

}  // namespace

MANTISSA_OP(LerpOp)
MANTISSA_OP(AddcmulOp)
MANTISSA_OP(AddcdivOp)

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  return apply(LerpOp{}, start, end, weight);
}
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  return apply(AddcmulOp(value), x, a, b);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  return apply(AddcdivOp(value), x, a, b);
}

}  // namespace mantissa
