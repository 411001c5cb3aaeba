// dropout: zeroes elements with probability p and scales the rest by 1 / (1 - p). No mask is
// stored: element i draws from counter (offset + i / 4), so backward is the same call on the gradient.
#include "core/ops.h"
#include "core/random.h"
#include "ops/apply.h"
#include "ops/dropout.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(dropout, const View& y, const View& x, double p, std::uint64_t seed, std::uint64_t offset)

namespace {

struct Dropout;
Tensor drop(const Dropout& op, const Tensor& x);  // its own gradient calls it: defined below

struct Dropout {
  static constexpr auto name = "dropout";
  static constexpr const char* args[] = {"x"};
  double p;
  RngState at;

  Spec infer(const Tensor& x) const {
    check(p >= 0 && p <= 1, "p must be a probability, got ", p);
    check(x.is_floating(), "needs a floating dtype");
    return like(x);
  }
  void run(const View& y, const View& x) const { kernels::dropout(y.device, y, x, p, at.seed, at.offset); }
  static constexpr auto vjp() {
    return rules([](const Dropout& op, Grad g) { return drop(op, g); });
  }
  static void samples(Samples& s) {
    s({s.randn({5, 7})}, Dropout{0.5, {3, 10}});
    s({s.randn({2, 300})}, Dropout{0.1, {4, 0}});
    s({s.randn({})}, Dropout{0, {1, 1}});
    s({s.randn({4})}, Dropout{1, {1, 1}});
    s({s.randn({0})}, Dropout{0.5, {1, 1}});
    s.error({s.randn({2})}, Dropout{1.5, {}}, "p must be a probability, got 1.5");
  }
};
Tensor drop(const Dropout& op, const Tensor& x) { return apply(op, contiguous(x)); }
MANTISSA_OP(Dropout)

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  return dropout_at(x, p, reserve_dropout(x.numel()));
}
RngState reserve_dropout(std::int64_t elements) { return reserve_random(static_cast<std::uint64_t>((elements + 3) / 4)); }
Tensor dropout_at(const Tensor& x, double p, RngState at) { return drop(Dropout{p, at}, x); }

}  // namespace mantissa
