// dropout: zeroes elements with probability p and scales the rest by 1 / (1 - p). No mask is stored: element i (in the
// logical order of the shape, [N, C, H, W] for images in any layout) uses random counter (offset + i / 4), so backward
// is the same call on the gradient.
#include "ops/dropout.h"

#include "core/ops.h"
#include "core/random.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(dropout, const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset)

namespace {

struct Dropout;
Tensor drop_over(const Dropout& op, Tensor g);  // the operator is its own gradient; defined below

struct Dropout {
  static constexpr auto name = "dropout";
  static constexpr const char* args[] = {"x"};
  double p;
  RngState at;
  Layout layout = Layout::contiguous;  // x's layout, for a gradient with a different one

  Spec infer(const Tensor& x) const {
    check(p >= 0 && p <= 1, "p must be a probability, got ", p);
    check(x.is_floating(), "needs a floating dtype");
    return like_layout(x);
  }
  void run(const View& y, const View& x) const { kernels::dropout(y.device, y, x, p, at.seed, at.offset); }
  static constexpr auto vjp() {
    return rules([](const Dropout& op, Grad g) { return drop_over(op, std::move(g)); });
  }
  void onnx(OnnxCall& c) const {
    c.refuse("it is dropout in training; call nn::eval(net) first, and give functions training = false");
  }
  static void samples(Samples& s) {
    s({s.randn({5, 7})}, Dropout{0.5, {3, 10}});
    s({s.randn({2, 300})}, Dropout{0.1, {4, 0}});
    s({s.randn({})}, Dropout{0, {1, 1}});
    s({s.randn({4})}, Dropout{1, {1, 1}});
    s({s.randn({0})}, Dropout{0.5, {1, 1}});
    s({s.randn({2, 16, 2, 6})}, Dropout{0.5, {5, 2}});
    s({s.randn({2, 19, 3, 5})}, Dropout{0.5, {5, 2}});
    s.error({s.randn({2})}, Dropout{1.5, {}}, "p must be a probability, got 1.5");
  }
};
Tensor drop_over(const Dropout& op, Tensor g) {
  if (op.layout == Layout::channels_last) g = channels_last(g);
  return apply_over({&g}, op, g);
}
MANTISSA_OP(Dropout)

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  return dropout_at(x, p, reserve_dropout(x.numel()));
}
RngState reserve_dropout(std::int64_t elements) {
  return reserve_random(static_cast<std::uint64_t>((elements + 3) / 4));
}
Tensor dropout_at(const Tensor& x, double p, RngState at) { return apply(Dropout{p, at, x.layout()}, x); }

}  // namespace mantissa
