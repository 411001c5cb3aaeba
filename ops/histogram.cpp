// How many elements have a value or lie in a range: bincount, histc, histogram. Made of sums by index.
#include <algorithm>
#include <cmath>

#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "core/recording.h"
#include "ops/apply.h"
#include "ops/length.h"
#include "ops/registry.h"

namespace mantissa {

Tensor bincount(const Tensor& x, const Tensor& weights, std::int64_t minlength) {
  check(x.dim() == 1 && !x.is_floating() && x.dtype() != boolean, "bincount: needs an i64 tensor of 1 dimension, got ",
        x);
  if (x.dtype() != i64) return bincount(cast(x, i64), weights, minlength);
  check(minlength >= 0, "bincount: minlength ", minlength, " is negative");
  check(!weights.defined() || weights.sizes() == x.sizes(), "bincount: weights ", weights, " do not fit ", x);
  check_may_read("bincount", x, "the largest value says how long the result is");
  const std::int64_t largest = x.numel() == 0 ? -1 : amax(x).item<std::int64_t>();
  check_length("bincount", "the largest value", largest);
  const std::int64_t bins = std::max(minlength, largest + 1);
  // as PyTorch
  const Tensor one = ones({1}, {.dtype = i64, .device = x.device()});
  const Tensor counted = !weights.defined()       ? expand(one, x.sizes())
                         : weights.is_floating() ? weights
                                                 : cast(weights, f64);
  return scatter_add(zeros({bins}, {.dtype = counted.dtype(), .device = x.device()}), 0, x, counted);
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

void check_histogram(const Tensor& x, const Tensor& weight) {
  check(x.is_floating(), "histogram: needs a floating dtype, got ", x);
  check(!weight.defined() || (weight.sizes() == x.sizes() && weight.dtype() == x.dtype()), "histogram: the weight ",
        weight, " does not fit ", x);
}
HistogramResult count_between(const Tensor& x, const Tensor& edges, const Tensor& weight, bool density) {
  const Tensor flat = flatten(x.detach());
  const std::int64_t bins = edges.numel() - 1;
  const Tensor inside = logical_and(ge(flat, select(edges, 0, 0)), le(flat, select(edges, 0, bins)));
  const Tensor bin = searchsorted(edges, where(inside, flat, select(edges, 0, 0)), true) - Tensor(1);
  const Tensor each = weight.defined() ? flatten(weight.detach()) : ones_like(flat);
  const Tensor counted = where(inside, each, Tensor(0.0));
  const Dtype wide = compute_dtype(x.dtype());
  const Tensor none = zeros({bins}, {.dtype = wide, .device = x.device()});
  Tensor hist = index_add(none, 0, clamp(bin, 0, static_cast<double>(bins - 1)), cast(counted, wide));
  if (density) hist = hist / (sum(hist) * diff(cast(edges, wide)));
  return {cast(hist, x.dtype()), edges};
}

}  // namespace

HistogramResult histogram(const Tensor& x, const Tensor& edges, const Tensor& weight, bool density) {
  check_histogram(x, weight);
  check(edges.dim() == 1 && edges.numel() >= 2 && edges.dtype() == x.dtype(),
        "histogram: the edges must be a vector of at least 2, of x's dtype ", x.dtype(), ", got ", edges);
  check_may_read("histogram", edges, "the edges must not descend");
  check(all(ge(diff(edges.detach()), Tensor(0.0))).item<bool>(), "histogram: the edges ", edges, " descend");
  return count_between(x, edges.detach(), weight, density);
}
HistogramResult histogram(const Tensor& x, std::int64_t bins, std::optional<std::array<double, 2>> range,
                          const Tensor& weight, bool density) {
  check_histogram(x, weight);
  check(bins > 0, "histogram: bins must be positive, got ", bins);
  if (!range && x.numel() > 0) {
    check_may_read("histogram", x, "the range is that of x; give one");
    range = {amin(x.detach()).item<double>(), amax(x.detach()).item<double>()};
  }
  auto [low, high] = range.value_or(std::array{0.0, 1.0});
  check(std::isfinite(low) && std::isfinite(high) && low <= high, "histogram: [", low, ", ", high,
        "] is no range; x must be finite, or give one that is");
  if (low == high) low -= 0.5, high += 0.5;
  return count_between(x, linspace(low, high, bins + 1, {.dtype = x.dtype(), .device = x.device()}), weight, density);
}

namespace {

void bincount_samples(Samples& s) {
  s.call({s.integers({9}, 0, 4)}, [](const Tensors& x) { return bincount(x[0], {}, 6); });
  // The largest index is fixed: the length of the result depends on it.
  s.call({s.randn({5})}, [](const Tensors& x) { return bincount(tensor({1, 0, 3, 1, 1}).to(x[0].device()), x[0]); });
  s.error_call(
      {s.randn({4})}, [](const Tensors& x) { return bincount(x[0]); }, "needs an i64 tensor");
  s.error_call(
      {s.integers({4}, -3, 0)}, [](const Tensors& x) { return bincount(x[0]); }, "out of range");
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
void histogram_samples(Samples& s) {
  const auto weighted = [](const Tensors& x) { return histogram(x[0], 4, {{2, 6}}, x[1], true).hist; };
  s.call({cast(s.integers({20}, 0, 9), f64), cast(s.integers({20}, 1, 4), f64)}, weighted);
  s.call({cast(s.integers({3, 4}, 0, 9), f64)}, [](const Tensors& x) { return histogram(x[0], 3).hist; });
  s.error_call(
      {s.integers({3}, 0, 9)}, [](const Tensors& x) { return histogram(x[0], 3).hist; }, "needs a floating dtype");
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return histogram(x[0], 0).hist; }, "bins must be positive, got 0");
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return histogram(x[0], tensor({2.0, 1.0}, {.dtype = f64})).hist; },
      "descend");
  s.error_call(
      {s.randn({3}), s.randn({2})}, [](const Tensors& x) { return histogram(x[0], 3, {}, x[1]).hist; },
      "does not fit");
}
MANTISSA_COMPOSITE(bincount, bincount_samples)
MANTISSA_COMPOSITE(histogram, histogram_samples, .differentiable = false)
MANTISSA_COMPOSITE(histc, histc_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
