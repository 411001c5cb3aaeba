// How many elements have a value or lie in a range: bincount, histc. Made of sums by index.
#include <algorithm>
#include <cmath>

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
  const Tensor counted = !weights.defined() ? ones_like(x) : weights.is_floating() ? weights : cast(weights, f64);
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
MANTISSA_COMPOSITE(bincount, bincount_samples)
MANTISSA_COMPOSITE(histc, histc_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
