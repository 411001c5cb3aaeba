// Functions of three tensors: lerp, and addcmul and addcdiv, which are made of others.
#include "core/ops.h"
#include "ops/compose.h"
#include "ops/pointwise.h"

namespace mantissa {
namespace {

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
  // In f32 beside halves, so that each gradient is rounded once.
  static Tensor wide(const Tensor& t) { return is_half(t.dtype()) ? cast(t, f32) : t; }
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

// value times a product or quotient; integers stay integers.
struct Addc {
  static constexpr const char* args[] = {"x", "tensor1", "tensor2"};
  static constexpr bool differentiable = true;
  static constexpr auto autocast = CastPolicy::promote;
  double value = 1;

  Tensor sum_of(const Tensor& x, const Tensor& term) const {
    if (value == 1) return x + term;
    check(x.is_floating() || term.is_floating(), "value must be 1 for integers");
    return x + value * term;
  }
  template <class Op> static void add_samples(Samples& s) {
    for (const double value : {1.0, -0.5}) {
      composed(s, {s.randn({3, 5}), s.randn({3, 5}), s.uniform({3, 5}, 0.5, 2)}, Op{{value}});
      composed(s, {s.randn({3, 5}), s.randn({5}), s.uniform({3, 1}, 0.5, 2)}, Op{{value}});
    }
    composed_error(s, {s.randn({2}), s.randn({3}), s.randn({2})}, Op{}, "do not broadcast");
  }
};
struct Addcmul : Addc {
  static constexpr auto name = "addcmul";
  static Tensor compose(const Addcmul& op, const Tensor& x, const Tensor& a, const Tensor& b) {
    return op.sum_of(x, a * b);
  }
  static void samples(Samples& s) {
    add_samples<Addcmul>(s);
    composed(s, {s.integers({3}, 0, 9), s.integers({3}, 0, 9), s.integers({3}, 0, 9)}, Addcmul{});
  }
};
struct Addcdiv : Addc {
  static constexpr auto name = "addcdiv";
  static Tensor compose(const Addcdiv& op, const Tensor& x, const Tensor& a, const Tensor& b) {
    check(a.is_floating() || b.is_floating(), "needs a floating dtype to divide in; convert with to(f32)");
    return op.sum_of(x, a / b);
  }
  static void samples(Samples& s) {
    add_samples<Addcdiv>(s);
    composed_error(s, {s.randn({2}), s.integers({2}, 1, 3), s.integers({2}, 1, 3)}, Addcdiv{},
                   "needs a floating dtype to divide in");
  }
};

}  // namespace

MANTISSA_OP(LerpOp)
MANTISSA_OP(Addcmul)
MANTISSA_OP(Addcdiv)

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  return apply(LerpOp{}, start, end, weight);
}
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  return apply_composed(Addcmul{{value}}, x, a, b);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  return apply_composed(Addcdiv{{value}}, x, a, b);
}

}  // namespace mantissa
