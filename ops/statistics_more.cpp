// Reductions made of others, continued: pairs of results, what passes over NaN, histograms, covariances.
// Read first: ops/statistics.cpp, ops/order_statistics.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops_special.h"
#include "ops/compose.h"
#include "ops/floating.h"

namespace mantissa {
namespace {

struct Dist {
  static constexpr auto name = "dist";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  double p = 2;
  static Tensor compose(const Dist& op, const Tensor& a, const Tensor& b) { return norm(a - b, op.p); }
  static void samples(Samples& s) {
    for (const double p : {2.0, 1.0, 3.0}) composed(s, {s.randn({3, 4}), s.randn({4})}, Dist{p});
    composed_error(s, {s.randn({2}), s.randn({3})}, Dist{}, "do not broadcast");
    composed_error(s, {s.integers({2}, 0, 3), s.integers({2}, 0, 3)}, Dist{}, "needs a floating dtype");
  }
};

struct Renorm {
  static constexpr auto name = "renorm";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  double p = 2;
  int dim = 0;
  double maxnorm = 1;
  static Tensor compose(const Renorm& op, const Tensor& x) {
    check_floating(x);
    check(x.dim() >= 2, "needs at least 2 dimensions");
    check(op.p > 0, "p must be positive, got ", op.p);
    check(op.maxnorm >= 0, "maxnorm must not be negative, got ", op.maxnorm);
    Dims others;
    for (int d = 0; d < x.dim(); ++d) if (d != wrap_dim(op.dim, x.dim())) others.push_back(d);
    const Tensor size = norm(x, op.p, others, true);
    return x * where(gt(size, Tensor(op.maxnorm)), op.maxnorm / (size + 1e-7), ones_like(size));
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 4})}, Renorm{2, 0, 1.5});
    composed(s, {s.randn({2, 3, 2})}, Renorm{1, -2, 0.5});
    composed_error(s, {s.randn({3})}, Renorm{}, "needs at least 2 dimensions");
    composed_error(s, {s.randn({3, 2})}, Renorm{0}, "p must be positive, got 0");
    composed_error(s, {s.randn({3, 2})}, Renorm{2, 0, -1}, "maxnorm must not be negative, got -1");
    composed_error(s, {s.randn({3, 2})}, Renorm{2, 2}, "dim 2 is out of range");
  }
};

struct Cov {
  static constexpr auto name = "cov";
  static constexpr const char* args[] = {"x", "fweights", "aweights"};
  static constexpr bool differentiable = true;
  int correction = 1;
  static Tensor compose(const Cov& op, const Tensor& given, const Tensor& fweights, const Tensor& aweights) {
    check(given.dim() <= 2, "x must be [variables, observations] or [observations]");
    check(given.dtype() != boolean, "x must be of numbers");
    const Tensor floating = given.is_floating() ? given : cast(given, f32);
    const Tensor x = floating.dim() == 2 ? floating : reshape(floating, {1, floating.numel()});
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
    composed(s, {s.randn({3, 5})}, Corrcoef{}).differentiable = false;  // differences see the bound at 1
    composed(s, {s.randn({5})}, Corrcoef{});
    composed_error(s, {s.randn({2, 2, 2})}, Corrcoef{}, "x must be [variables, observations]");
  }
};

}  // namespace

MANTISSA_OP(Dist)
MANTISSA_OP(Renorm)
MANTISSA_OP(Cov)
MANTISSA_OP(Corrcoef)

Tensor dist(const Tensor& a, const Tensor& b, double p) { return apply_composed(Dist{p}, a, b); }
Tensor renorm(const Tensor& x, double p, int dim, double maxnorm) { return apply_composed(Renorm{p, dim, maxnorm}, x); }
Tensor cov(const Tensor& x, int correction, const Tensor& fweights, const Tensor& aweights) {
  return apply_composed(Cov{correction}, x, fweights, aweights);
}
Tensor corrcoef(const Tensor& x) { return apply_composed(Corrcoef{}, x); }

MinMax aminmax(const Tensor& x, std::optional<int> dim, bool keepdim) {
  const Dims dims = dim ? Dims{*dim} : Dims{};
  return {amin(x, dims, keepdim), amax(x, dims, keepdim)};
}
StdMean std_mean(const Tensor& x, const Dims& dims, bool keepdim, int correction) {
  return {mantissa::std(x, dims, keepdim, correction), mean(x, dims, keepdim)};
}
VarMean var_mean(const Tensor& x, const Dims& dims, bool keepdim, int correction) {
  return {var(x, dims, keepdim, correction), mean(x, dims, keepdim)};
}
ValuesIndices nanmedian(const Tensor& x, int dim, bool keepdim) {
  if (!x.is_floating()) return median(x, dim, keepdim);
  const int d = wrap_dim(dim, x.dim());
  const Tensor line = atleast_1d(x), values = line.detach();
  check(line.sizes()[d] > 0, "nanmedian: dimension ", dim, " of ", x, " has no elements");
  // NaN are the last in the order, so the lower middle of the others stands at (count - 1) / 2.
  // exact, asks no host
  const Tensor middle = floor((sum(cast(logical_not(isnan(values)), f64), {d}, true) - 1.0) * 0.5);
  const Tensor place = cast(clamp(middle, 0, static_cast<double>(line.sizes()[d] - 1)), i64);
  const Tensor index = gather(argsort(values, d), d, place), y = gather(line, d, index);
  if (keepdim && x.dim() > 0) return {y, index};
  return {squeeze(y, d), squeeze(index, d)};
}
Tensor nanmedian(const Tensor& x) {
  if (x.numel() == 0 && x.is_floating()) return full({}, NAN, {.dtype = x.dtype(), .device = x.device()});
  return nanmedian(flatten(x), 0).values;
}
Tensor histc(const Tensor& x, std::int64_t bins, double min, double max) {
  check(x.is_floating(), "histc: needs a floating dtype, got ", x);
  check(bins > 0, "histc: bins must be positive, got ", bins);
  check(std::isfinite(min) && std::isfinite(max) && min <= max, "histc: [", min, ", ", max, "] is no range");
  const Dtype wide = compute_dtype(x.dtype());
  const Tensor flat = cast(flatten(x.detach()), wide);
  const TensorOptions o{.dtype = wide, .device = x.device()};
  Tensor low = full({}, min, o), high = full({}, max, o);
  if (min == max && x.numel() > 0) {
    low = amin(flat), high = amax(flat);
    if (low.device().is_cpu()) {  // a GPU is not asked: there is nothing in any bin
      check(std::isfinite(low.item<double>()) && std::isfinite(high.item<double>()), "histc: the range of x, [",
            low.item<double>(), ", ", high.item<double>(), "], is not finite; give min and max");
    }
  }
  const Tensor flat_range = eq(low, high);
  low = where(flat_range, low - 1.0, low);
  high = where(flat_range, high + 1.0, high);
  const Tensor place = (flat - low) / (high - low) * static_cast<double>(bins);
  const Tensor inside = logical_and(isfinite(place), logical_and(ge(flat, low), le(flat, high)));
  const Tensor bin = clamp(cast(where(inside, place, Tensor(0.0)), i64), 0, static_cast<double>(bins - 1));
  return cast(index_add(zeros({bins}, o), 0, bin, cast(inside, wide)), x.dtype());
}

namespace {

void aminmax_samples(Samples& s) {
  const auto rows = [](const Tensors& x) {
    const MinMax y = aminmax(x[0], -1, true);
    return Tensors{y.min, y.max};
  };
  s.call({s.distinct({3, 4})}, rows);
  s.call({s.integers({3, 4}, 0, 9)}, [](const Tensors& x) { return Tensors{aminmax(x[0]).min, aminmax(x[0]).max}; });
  s.error_call({s.randn({2, 0})}, rows, "an empty set has no minimum");
}
void std_mean_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const StdMean y = std_mean(x[0], {-1}, true, 0);
    return Tensors{y.std, y.mean};
  };
  s.call({s.randn({3, 4})}, f);
  s.error_call({s.integers({3, 4}, 0, 9)}, f, "needs a floating dtype");
}
void var_mean_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const VarMean y = var_mean(x[0], {-1});
    return Tensors{y.var, y.mean};
  };
  s.call({s.randn({3, 4})}, f);
  s.error_call({s.integers({3, 4}, 0, 9)}, f, "needs a floating dtype");
}
void nanmedian_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return nanmedian(x[0], 1).values; };
  s.call({s.distinct({3, 6})}, f);
  s.call({s.integers({3, 5}, 0, 9)}, f);
  s.call({s.distinct({3, 3})}, [](const Tensors& x) { return nanmedian(x[0]); });
  s.error_call({s.randn({2, 0})}, f, "has no elements");
}
void histc_samples(Samples& s) {
  s.call({cast(s.integers({20}, 0, 9), f64)}, [](const Tensors& x) { return histc(x[0], 4, 2, 6); });
  s.call({cast(s.integers({20}, 0, 9), f64)}, [](const Tensors& x) { return histc(x[0], 3); });
  s.error_call(
      {s.integers({3}, 0, 9)}, [](const Tensors& x) { return histc(x[0]); }, "needs a floating dtype");
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return histc(x[0], 0); }, "bins must be positive, got 0");
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return histc(x[0], 4, 2, 1); }, "is no range");
}
MANTISSA_COMPOSITE(aminmax, aminmax_samples)
MANTISSA_COMPOSITE(std_mean, std_mean_samples)
MANTISSA_COMPOSITE(var_mean, var_mean_samples)
MANTISSA_COMPOSITE(nanmedian, nanmedian_samples)
MANTISSA_COMPOSITE(histc, histc_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
