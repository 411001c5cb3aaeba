// Functions of three tensors that are made of others: lerp, addcmul, addcdiv.
#include "core/ops.h"
#include "ops/compose.h"

namespace mantissa {
namespace {

struct Lerp {
  static constexpr auto name = "lerp";
  static constexpr const char* args[] = {"start", "end", "weight"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Lerp&, const Tensor& start, const Tensor& end, const Tensor& weight) {
    check(start.is_floating() && end.is_floating(), "needs floating dtypes; convert with to(f32)");
    const Tensor way = end - start;  // from the nearer end, so that both are met exactly
    if (weight.is_weak_scalar()) {
      const double w = weight.item<double>();
      return w > -0.5 && w < 0.5 ? start + weight * way : end - way * (1.0 - w);
    }
    return where(lt(abs(weight), Tensor(0.5)), start + weight * way, end - way * (1.0 - weight));
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5}), s.randn({3, 5}), s.uniform({3, 5}, 0, 1)}, Lerp{});
    composed(s, {s.randn({3, 5}), s.randn({5}), s.uniform({3, 1}, 0, 1)}, Lerp{});
    composed(s, {s.randn({}), s.randn({}), s.uniform({}, 0, 1)}, Lerp{});
    composed_error(s, {s.integers({2}, 0, 3), s.randn({2}), s.randn({2})}, Lerp{}, "needs floating dtypes");
    composed_error(s, {s.randn({2}), s.randn({3}), s.randn({2})}, Lerp{}, "do not broadcast");
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

MANTISSA_OP(Lerp)
MANTISSA_OP(Addcmul)
MANTISSA_OP(Addcdiv)

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  return apply_composed(Lerp{}, start, end, weight);
}
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  return apply_composed(Addcmul{{value}}, x, a, b);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  return apply_composed(Addcdiv{{value}}, x, a, b);
}

}  // namespace mantissa
