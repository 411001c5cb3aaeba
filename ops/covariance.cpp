// Covariance and correlation of variables, which are rows of observations: cov, corrcoef.
#include <algorithm>

#include "core/ops_special.h"
#include "ops/compose.h"
#include "ops/floating.h"

namespace mantissa {
namespace {

struct Cov {
  static constexpr auto name = "cov";
  static constexpr const char* args[] = {"x", "fweights", "aweights"};
  static constexpr bool differentiable = true;
  int correction = 1;
  static Tensor compose(const Cov& op, const Tensor& given, const Tensor& fweights, const Tensor& aweights) {
    check(given.dim() <= 2, "x must be [variables, observations] or [observations]");
    check(given.dtype() != boolean, "x must be of numbers");
    const Tensor numbers = floating(given);
    const Tensor x = numbers.dim() == 2 ? numbers : reshape(numbers, {1, numbers.numel()});
    const std::int64_t n = x.size(1);
    if (fweights.defined()) {
      check(fweights.sizes() == Dims{n}, "fweights must be [", n, "]");
      check(!fweights.is_floating(), "fweights must be integers, got ", fweights.dtype());
    }
    if (aweights.defined()) {
      check(aweights.sizes() == Dims{n}, "aweights must be [", n, "]");
      check(aweights.is_floating(), "aweights must be floating, got ", aweights.dtype());
    }
    if (!fweights.defined() && !aweights.defined()) {
      const Tensor apart = x - sum(x, {1}, true) * (1.0 / static_cast<double>(n));
      const Tensor products = matmul(apart, transpose(apart));
      return squeeze(products / Tensor(static_cast<double>(std::max<std::int64_t>(n - op.correction, 0))));
    }
    Tensor w = fweights.defined() ? cast(fweights, x.dtype()) : aweights;
    if (fweights.defined() && aweights.defined()) w = w * aweights;
    const Tensor total = sum(w);
    const Tensor apart = x - sum(x * w, {1}, true) / total;
    const double correction = op.correction;
    const Tensor freedom =
        aweights.defined() && correction != 0 ? total - correction * sum(w * aweights) / total : total - correction;
    const Tensor products = matmul(apart, transpose(apart * w));
    return squeeze(products / clamp_min(freedom, 0));
  }
  static constexpr std::uint64_t constants = 2;  // fweights
  static void samples(Samples& s) {
    const Tensor counts = s.integers({5}, 1, 4);
    composed(s, {s.randn({3, 5}), Tensor(), Tensor()}, Cov{});
    composed(s, {s.randn({5}), Tensor(), Tensor()}, Cov{0});
    composed(s, {s.randn({2, 5}), counts, Tensor()}, Cov{});
    composed(s, {s.randn({2, 5}), counts, s.uniform({5}, 0.5, 1)}, Cov{});
    composed(s, {s.integers({2, 4}, 0, 9), Tensor(), Tensor()}, Cov{});
    composed_error(s, {s.randn({2, 2, 2}), Tensor(), Tensor()}, Cov{}, "x must be [variables, observations]");
    composed_error(s, {s.randn({2, 3}), s.integers({2}, 1, 2), Tensor()}, Cov{}, "fweights must be [3]");
    composed_error(s, {s.randn({2, 3}), s.randn({3}), Tensor()}, Cov{}, "fweights must be integers");
    composed_error(s, {s.randn({2, 3}), Tensor(), s.randn({2})}, Cov{}, "aweights must be [3]");
  }
};

struct Corrcoef {
  static constexpr auto name = "corrcoef";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  static Tensor compose(const Corrcoef&, const Tensor& x) {
    const Tensor c = cov(x);
    if (c.dim() == 0) return c / c;
    const Tensor deviation = sqrt(diagonal(c));
    return clamp(c / unsqueeze(deviation, 1) / unsqueeze(deviation, 0), -1, 1);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 5})}, Corrcoef{}).differentiable = false;  // finite differences are wrong at the bound 1
    composed(s, {s.randn({5})}, Corrcoef{});
    composed_error(s, {s.randn({2, 2, 2})}, Corrcoef{}, "x must be [variables, observations]");
  }
};

}  // namespace

MANTISSA_OP(Cov)
MANTISSA_OP(Corrcoef)

Tensor cov(const Tensor& x, int correction, const Tensor& fweights, const Tensor& aweights) {
  return apply_composed(Cov{correction}, x, fweights, aweights);
}
Tensor corrcoef(const Tensor& x) { return apply_composed(Corrcoef{}, x); }

}  // namespace mantissa
