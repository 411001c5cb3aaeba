// Counts of elements by value or range: bincount, histc, histogram, histogramdd. Composed of scatter-adds.
#include <algorithm>
#include <cmath>

#include "core/context.h"
#include "core/kernel.h"
#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "core/recording.h"
#include "ops/apply.h"
#include "ops/length.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(check_indices, const View& index, std::int64_t size)
MANTISSA_KERNEL(count_values, const View& y, const View& x)
MANTISSA_KERNEL(count_between, const View& y, const View& x, const View& edges, const View& weight)

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
  if (!weights.defined() && !context().autocast.traced) {
    const Tensor counts = Tensor::allocate({bins}, i64, x.device()), values = contiguous(x);
    kernels::check_indices(x.device(), values.view(), bins);
    kernels::count_values(x.device(), counts.view(), values.view());
    return counts;
  }
  // dtype of the counts as in PyTorch
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
    if (low.device().is_cpu()) {  // not checked on a GPU, which would synchronize: all bins stay empty there
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

void check_weight(const char* op, const Tensor& x, const Tensor& weight, const Dims& sizes) {
  check(x.is_floating(), op, ": needs a floating dtype, got ", x);
  check(!weight.defined() || (weight.sizes() == sizes && weight.dtype() == x.dtype()), op, ": the weight ", weight,
        " does not fit ", x, "; it should be ", x.dtype(), sizes);
}
void check_edges(const char* op, const Tensor& x, const Tensor& edges) {
  check(edges.dim() == 1 && edges.numel() >= 2 && edges.dtype() == x.dtype(), op,
        ": the edges must be a vector of at least 2, of x's dtype ", x.dtype(), ", got ", edges);
  check_may_read(op, edges, "the edges must not descend");
  check(all(ge(diff(edges.detach()), Tensor(0.0))).item<bool>(), op, ": the edges ", edges, " descend");
}
// The edges of equal bins over a range; default: the range of x.
Tensor equal_parts(const char* op, const Tensor& x, std::int64_t bins, std::optional<std::array<double, 2>> range) {
  check(bins > 0, op, ": bins must be positive, got ", bins);
  if (!range && x.numel() > 0) {
    check_may_read(op, x, "the range is that of x; give one");
    range = {amin(x.detach()).item<double>(), amax(x.detach()).item<double>()};
  }
  auto [low, high] = range.value_or(std::array{0.0, 1.0});
  check(std::isfinite(low) && std::isfinite(high) && low <= high, op, ": [", low, ", ", high,
        "] is no range; x must be finite, or give one that is");
  if (low == high) low -= 0.5, high += 0.5;
  return linspace(low, high, bins + 1, {.dtype = x.dtype(), .device = x.device()});
}
// Counts a 1-d histogram on the CPU in one pass.
Tensor count_numbers(const Tensor& x, const Tensor& edges, const Tensor& weight) {
  const Tensor counts = Tensor::allocate({edges.numel() - 1}, f64);
  const Tensor each = weight.defined() ? contiguous(weight.detach()) : Tensor();
  kernels::count_between(x.device(), counts.view(), contiguous(x).view(), contiguous(edges.detach()).view(),
                         each.defined() ? each.view() : View{});
  return counts;
}
// Counts points, one per row, into bins between the edges of each column.
Tensor count_between(const Tensor& points, const std::vector<Tensor>& edges, const Tensor& weight, bool density) {
  Tensor inside, bin, volume;
  Dims sizes;
  const Dtype wide = compute_dtype(points.dtype());
  if (edges.size() == 1 && points.device().is_cpu()) {
    const Tensor count = count_numbers(flatten(points), edges[0], weight);
    return cast(density ? count / (sum(count) * diff(cast(edges[0], f64))) : count, points.dtype());
  }
  for (int d = 0; d < static_cast<int>(edges.size()); ++d) {
    const Tensor& e = edges[static_cast<std::size_t>(d)];
    const std::int64_t bins = e.numel() - 1;
    const Tensor x = contiguous(select(points, 1, d)), first = select(e, 0, 0);
    const Tensor here = logical_and(ge(x, first), le(x, select(e, 0, bins)));
    Tensor at = searchsorted(e, where(here, x, first), true) - Tensor(1);
    at = clamp(at, 0, static_cast<double>(bins - 1));
    bin = d == 0 ? at : bin * Tensor(bins) + at;
    inside = d == 0 ? here : logical_and(inside, here);
    const Tensor widths = diff(cast(e, wide));
    volume = d == 0 ? widths : unsqueeze(volume, -1) * widths;
    sizes.push_back(bins);
  }
  const Tensor each = weight.defined() ? flatten(weight.detach()) : ones_like(select(points, 1, 0));
  const Tensor counted = cast(where(inside, each, Tensor(0.0)), wide);
  const Tensor none = zeros({numel_of(sizes)}, {.dtype = wide, .device = points.device()});
  Tensor hist = reshape(index_add(none, 0, bin, counted), sizes);
  if (density) hist = hist / (sum(hist) * volume);
  return cast(hist, points.dtype());
}
HistogramResult histogram_between(const Tensor& x, const Tensor& edges, const Tensor& weight, bool density) {
  return {count_between(reshape(x.detach(), {-1, 1}), {edges}, weight, density), edges};
}
// x as points [n, d], for d bins or vectors of edges.
Tensor points_of(const Tensor& x, std::size_t dims, const Tensor& weight) {
  check(x.dim() >= 2 && dims > 0 && x.size(-1) == static_cast<std::int64_t>(dims), "histogramdd: ", x,
        " are no points in ", dims, " dimensions, for which bins are given; the last dim of x should be that long");
  Dims each;  // one value per point
  for (int d = 0; d + 1 < x.dim(); ++d) each.push_back(x.size(d));
  check_weight("histogramdd", x, weight, each);
  return reshape(x.detach(), {numel_of(each), x.size(-1)});
}

}  // namespace

HistogramResult histogram(const Tensor& x, const Tensor& edges, const Tensor& weight, bool density) {
  check_weight("histogram", x, weight, x.sizes());
  check_edges("histogram", x, edges);
  return histogram_between(x, edges.detach(), weight, density);
}
HistogramResult histogram(const Tensor& x, std::int64_t bins, std::optional<std::array<double, 2>> range,
                          const Tensor& weight, bool density) {
  check_weight("histogram", x, weight, x.sizes());
  return histogram_between(x, equal_parts("histogram", x, bins, range), weight, density);
}
HistogramddResult histogramdd(const Tensor& x, const std::vector<Tensor>& edges, const Tensor& weight, bool density) {
  const Tensor points = points_of(x, edges.size(), weight);
  HistogramddResult r;
  for (const Tensor& e : edges) {
    check_edges("histogramdd", x, e);
    r.bin_edges.push_back(e.detach());
  }
  r.hist = count_between(points, r.bin_edges, weight, density);
  return r;
}
HistogramddResult histogramdd(const Tensor& x, const Dims& bins, const std::vector<std::array<double, 2>>& range,
                              const Tensor& weight, bool density) {
  const Tensor points = points_of(x, static_cast<std::size_t>(bins.rank()), weight);
  check(range.empty() || range.size() == static_cast<std::size_t>(bins.rank()), "histogramdd: ", range.size(),
        " ranges for ", bins.rank(), " dimensions; give one for each or none");
  HistogramddResult r;
  for (int d = 0; d < bins.rank(); ++d) {
    const auto given = range.empty() ? std::nullopt : std::optional(range[static_cast<std::size_t>(d)]);
    r.bin_edges.push_back(equal_parts("histogramdd", select(points, 1, d), bins[d], given));
  }
  r.hist = count_between(points, r.bin_edges, weight, density);
  return r;
}

namespace {

void bincount_samples(Samples& s) {
  s.call({s.integers({9}, 0, 4)}, [](const Tensors& x) { return bincount(x[0], {}, 6); });
  // The largest index is fixed, because it determines the result's size.
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
void histogramdd_samples(Samples& s) {
  const auto equal = [](const Tensors& x) { return histogramdd(x[0], {3, 2}, {{2, 8}, {1, 9}}, x[1], true).hist; };
  s.call({cast(s.integers({20, 2}, 0, 9), f64), cast(s.integers({20}, 1, 4), f64)}, equal);
  s.call({cast(s.integers({3, 4, 3}, 0, 9), f64)}, [](const Tensors& x) { return histogramdd(x[0], {2, 1, 3}).hist; });
  const auto between = [](const Tensors& x) { return histogramdd(x[0], std::vector<Tensor>{x[1], x[2]}).hist; };
  s.call({cast(s.integers({9, 2}, 0, 9), f64), arange(0, 9, 2, {.dtype = f64}), tensor({0.0, 3.0, 4.0})}, between);
  s.error_call(
      {s.randn({4, 3})}, [](const Tensors& x) { return histogramdd(x[0], {3, 2}).hist; }, "no points in 2 dimensions");
  s.error_call(
      {s.randn({4, 2}), s.randn({8})}, [](const Tensors& x) { return histogramdd(x[0], {3, 2}, {}, x[1]).hist; },
      "does not fit");
  s.error_call(
      {s.randn({4, 2})}, [](const Tensors& x) { return histogramdd(x[0], {3, 2}, {{0, 1}}).hist; }, "one for each");
}
MANTISSA_COMPOSITE(bincount, bincount_samples)
MANTISSA_COMPOSITE(histogramdd, histogramdd_samples, .differentiable = false)
MANTISSA_COMPOSITE(histogram, histogram_samples, .differentiable = false)
MANTISSA_COMPOSITE(histc, histc_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
