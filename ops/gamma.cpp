// Gamma functions: lgamma, digamma and polygamma, one kernel in which each is the derivative of the previous one, and
// mvlgamma, composed of lgamma.
#include "core/ops_special.h"

#include <cmath>
#include <numbers>

#include "core/kernel.h"
#include "ops/compose.h"
#include "ops/floating.h"

namespace mantissa {
MANTISSA_KERNEL(gamma_function, const View& y, const View& x, std::int64_t order)

namespace {

struct GammaOperator {
  static constexpr const char* args[] = {"x"};
  Spec infer(const Tensor& x) const {
    check(x.is_floating(), "needs a floating dtype");
    return like(x);
  }
};
struct Polygamma : GammaOperator {
  static constexpr auto name = "polygamma";
  std::int64_t n = 1;
  explicit Polygamma(std::int64_t order = 1) : n(order) {}
  Spec infer(const Tensor& x) const {
    check(n >= 0, "n must not be negative, got ", n);
    check(n < INT32_MAX, "n ", n, " is too large: the gradient needs the next");
    return GammaOperator::infer(x);
  }
  void run(const View& y, const View& x) const { kernels::gamma_function(x.device, y, x, n); }
  static constexpr auto vjp() {
    return rules([](const Polygamma& op, Grad g, In<0> x) { return g * polygamma(op.n + 1, x); });
  }
  static void samples(Samples& s) {
    for (std::int64_t n : {0, 1, 2, 5}) s({s.uniform({3, 5}, 0.6, 6)}, Polygamma{n});
    s({s.uniform({2, 3}, -1.8, -1.2)}, Polygamma{1});
    s({s.uniform({0, 4}, 1, 2)}, Polygamma{1});
    s.error({s.randn({2})}, Polygamma{-1}, "n must not be negative, got -1");
  }
};
struct Digamma : GammaOperator {
  static constexpr auto name = "digamma";
  void run(const View& y, const View& x) const { kernels::gamma_function(x.device, y, x, 0); }
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> x) { return g * polygamma(1, x); });
  }
  static void samples(Samples& s) {
    for (const Dims& sizes : {Dims{3, 7}, Dims{}, Dims{0, 4}, Dims{2, 1030}}) s({s.uniform(sizes, 0.4, 6)}, Digamma{});
    s({s.uniform({2, 3}, -1.8, -1.2)}, Digamma{});
  }
};
struct Lgamma : GammaOperator {
  static constexpr auto name = "lgamma";
  void run(const View& y, const View& x) const { kernels::gamma_function(x.device, y, x, -1); }
  static constexpr auto vjp() {
    return rules([](Grad g, In<0> x) { return g * digamma(x); });
  }
  static void samples(Samples& s) {
    for (const Dims& sizes : {Dims{3, 7}, Dims{}, Dims{0, 4}, Dims{2, 1030}}) s({s.uniform(sizes, 0.4, 6)}, Lgamma{});
    s({s.uniform({2, 3}, -1.8, -1.2)}, Lgamma{});
  }
};

struct Mvlgamma {
  static constexpr auto name = "mvlgamma";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  int p = 1;
  static Tensor compose(const Mvlgamma& op, const Tensor& x) {
    check(op.p >= 1, "p must be at least 1, got ", op.p);
    const Tensor z = floating(x);
    Tensor y = lgamma(z);
    for (int j = 1; j < op.p; ++j) y = y + lgamma(z - 0.5 * j);
    return y + 0.25 * op.p * (op.p - 1) * std::log(std::numbers::pi);
  }
  static void samples(Samples& s) {
    composed(s, {s.uniform({3, 4}, 1.3, 5)}, Mvlgamma{3});
    composed(s, {s.integers({4}, 3, 9)}, Mvlgamma{2});
    composed_error(s, {s.randn({2})}, Mvlgamma{0}, "p must be at least 1, got 0");
  }
};

}  // namespace

MANTISSA_OP(Lgamma)
MANTISSA_OP(Digamma)
MANTISSA_OP(Polygamma)
MANTISSA_OP(Mvlgamma)

Tensor lgamma(const Tensor& x) { return apply(Lgamma{}, floating(x)); }
Tensor digamma(const Tensor& x) { return apply(Digamma{}, floating(x)); }
Tensor polygamma(std::int64_t n, const Tensor& x) { return apply(Polygamma{n}, floating(x)); }
Tensor mvlgamma(const Tensor& x, int p) { return apply_composed(Mvlgamma{p}, x); }

}  // namespace mantissa
