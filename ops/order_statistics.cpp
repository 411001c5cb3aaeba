// Order statistics along a dimension: median, mode, k-th value, quantiles. Composed of sort and gather, so gradients go
// to the selected elements. NaN counts as the largest value.
#include <cmath>
#include <limits>

#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "ops/compose.h"
#include "ops/named.h"
#include "ops/number_like.h"
#include "ops/order.h"

namespace mantissa {
namespace {

// A 0-d tensor as a vector of one element.
Tensor as_line(const Tensor& x) { return x.dim() == 0 ? unsqueeze(x, 0) : x; }
// The elements at `index` (size 1 along dim), shaped as the caller wants them.
ValuesIndices chosen(const Tensor& x, const Tensor& index, int dim, bool keepdim) {
  ValuesIndices y{gather(as_line(x), dim, index), index};
  if (keepdim && x.dim() > 0) return y;
  return {squeeze(y.values, dim), squeeze(y.indices, dim)};
}
std::int64_t checked_size(const char* name, const Tensor& x, int dim) {
  const std::int64_t n = x.dim() == 0 ? 1 : x.sizes()[dim];
  check(n > 0, name, ": dimension ", dim, " of ", x, " has no elements");
  return n;
}

// A quantile q, which stays on the host, in the precision of x.
Tensor share_for(const Tensor& x, double q) { return Tensor(x.dtype() == f64 ? q : double{static_cast<float>(q)}); }

// With skips_nan only the values that are not NaN count, so positions differ from line to line.
template <bool skips_nan> struct Quantile {
  static constexpr auto name = skips_nan ? "nanquantile" : "quantile";
  static constexpr const char* args[] = {"x", "q"};
  static constexpr bool differentiable = true, halves = false;
  static constexpr std::uint64_t constants = 2;  // q
  std::optional<int> dim = {};
  bool keepdim = false;
  std::string interpolation = "linear";

  // The two of n sorted elements that q is between, and the weight of the second.
  struct Place { std::int64_t low, high; double weight; };
  Place place(double q, std::int64_t n) const {
    const double at = q * static_cast<double>(n - 1);
    auto low = static_cast<std::int64_t>(std::floor(at)), high = static_cast<std::int64_t>(std::ceil(at));
    double weight = at - static_cast<double>(low);
    if (interpolation == "lower") high = low;
    if (interpolation == "higher") low = high;
    if (interpolation == "nearest") low = high = static_cast<std::int64_t>(std::nearbyint(at));
    if (interpolation == "midpoint") weight = 0.5;
    return {low, high, low == high ? 0 : weight};
  }
  static Tensor nan() { return Tensor(std::numeric_limits<double>::quiet_NaN()); }
  // The value at q of sorted lines, of size 1 along d. A neighbour with weight 0 must not make it NaN if it is
  // infinite.
  Tensor value(const Tensor& ordered, int d, double q) const {
    const Place p = place(q, ordered.sizes()[d]);
    const Tensor low = slice(ordered, d, p.low, p.low + 1);
    return p.low == p.high ? low : low + (slice(ordered, d, p.high, p.high + 1) - low) * p.weight;
  }
  // The same for lines whose first count[i] elements are not NaN; a line of only NaN gives its first NaN.
  Tensor value_of_numbers(const Tensor& ordered, const Tensor& count, int d, double q) const {
    const Tensor at = clamp_min((cast(count, f64) - 1.0) * q, 0);
    Tensor low = floor(at), high = ceil(at), weight = at - low;
    if (interpolation == "lower") high = low;
    if (interpolation == "higher") low = high;
    if (interpolation == "nearest") low = high = round(at);
    if (interpolation == "midpoint") weight = full_like(at, 0.5);
    const Tensor a = gather(ordered, d, cast(low, i64)), b = gather(ordered, d, cast(high, i64));
    return where(eq(low, high), a, a + (b - a) * cast(weight, a.dtype()));
  }
  static Tensor compose(const Quantile& op, const Tensor& x, const Tensor& q) {
    check(x.dtype() == f32 || x.dtype() == f64, "x must be f32 or f64, got ", x.dtype());
    check(q.dim() <= 1, "q must be a number or a vector, got ", q);
    for (const char* known : {"linear", "lower", "higher", "midpoint", "nearest", ""}) {
      check(*known, "interpolation must be linear, lower, higher, midpoint or nearest, got \"", op.interpolation, "\"");
      if (op.interpolation == known) break;
    }
    const Tensor line = as_line(op.dim ? x : flatten(x));
    const int d = wrap_dim(op.dim.value_or(0), line.dim());
    checked_size(name, line, d);
    const Tensor ordered = sort(line, d).values, is_nan = isnan(line.detach());
    const Tensor found = skips_nan ? sum(cast(logical_not(is_nan), i64), {d}, true) : any(is_nan, {d}, true);
    std::vector<Tensor> results;
    for (const double share : q.to_vector<double>()) {
      check(share >= 0 && share <= 1, "q must be between 0 and 1, found ", share);
      const Tensor y =
          skips_nan ? op.value_of_numbers(ordered, found, d, share) : where(found, nan(), op.value(ordered, d, share));
      results.push_back(!op.keepdim ? squeeze(y, d) : op.dim ? y : reshape(y, Dims::filled(x.dim(), 1)));
    }
    if (q.dim() == 0) return x.dim() == 0 && op.dim ? reshape(results[0], {}) : results[0];
    check(!results.empty(), "q is empty");
    return stack(results);
  }
  static void samples(Samples& s) {
    for (const char* how : {"linear", "lower", "higher", "midpoint", "nearest"}) {
      composed(s, {s.distinct({3, 6}), tensor({0.0, 0.3, 0.75, 1.0}, {.dtype = f64})}, Quantile{1, false, how});
    }
    composed(s, {s.distinct({3, 4}), scalar(0.4, {.dtype = f64})}, Quantile{{}, true});
    composed(s, {s.distinct({2, 3, 2}), scalar(0.5, {.dtype = f64})}, Quantile{-2, true});
    if (skips_nan) {
      const Tensor some = cat({full({3, 2}, NAN, {.dtype = f64}), s.distinct({3, 4})}, 1);
      composed(s, {some, tensor({0.0, 0.3, 1.0}, {.dtype = f64})}, Quantile{1}).extreme = true;
    }
    composed_error(s, {s.randn({3}), scalar(1.5, {.dtype = f64})}, Quantile{0}, "q must be between 0 and 1, found 1.5");
    composed_error(s, {s.randn({3}), s.randn({2, 2})}, Quantile{0}, "q must be a number or a vector");
    composed_error(s, {s.randn({3}), scalar(0.5, {.dtype = f64})}, Quantile{0, false, "cubic"},
                   "interpolation must be linear");
    composed_error(s, {s.randn({0}), scalar(0.5, {.dtype = f64})}, Quantile{0}, "has no elements");
    composed_error(s, {s.integers({3}, 0, 4), scalar(0.5, {.dtype = f64})}, Quantile{0}, "x must be f32 or f64");
  }
};

}  // namespace

MANTISSA_OP(Quantile<false>)
MANTISSA_OP(Quantile<true>)

ValuesIndices kthvalue(const Tensor& x, std::int64_t k, int dim, bool keepdim) {
  const int d = named_dim("kthvalue", x, dim);
  const std::int64_t n = checked_size("kthvalue", x, d);
  check(k >= 1 && k <= n, "kthvalue: k = ", k, " is not between 1 and the size ", n, " of dimension ", d, " of ", x);
  return chosen(x, argsort_place(as_line(x.detach()), d, k - 1), d, keepdim);
}
ValuesIndices median(const Tensor& x, int dim, bool keepdim) {
  const int d = named_dim("median", x, dim);
  const std::int64_t n = checked_size("median", x, d);
  return chosen(x, argsort_place(as_line(x.detach()), d, (n - 1) / 2, true), d, keepdim);
}
Tensor median(const Tensor& x) {
  if (x.numel() == 0 && x.is_floating()) return number_like(x, NAN);
  return median(flatten(x), 0).values;
}
ValuesIndices mode(const Tensor& x, int dim, bool keepdim) {
  const int d = named_dim("mode", x, dim);
  const std::int64_t n = checked_size("mode", x, d);
  const Tensor line = as_line(x.detach()), order = argsort(line, d), ordered = gather(line, d, order);
  // The start of the run of equal values that each element belongs to, which gives the run's length up to there.
  Dims edge = line.sizes(), positions = Dims::filled(line.dim(), 1);
  edge[d] = 1;
  positions[d] = n;
  const TensorOptions o{.dtype = i64, .device = x.device()};
  const Tensor place = reshape(arange(n, {.device = x.device()}), positions),
               differs = ne(slice(ordered, d, 1), slice(ordered, d, 0, n - 1));
  const Tensor starts = cat({zeros(edge, o), slice(place, d, 1) * cast(differs, i64)}, d);
  // for runs of equal length argmax takes the first, so the smallest value
  const Tensor length = place - cummax(starts, d).values;
  return chosen(x, gather(order, d, argmax(length, d, true)), d, keepdim);
}
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int> dim, bool keepdim,
                std::string_view interpolation) {
  return apply_composed(Quantile<false>{dim, keepdim, std::string(interpolation)}, x, q);
}
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<int> dim, bool keepdim,
                   std::string_view interpolation) {
  return apply_composed(Quantile<true>{dim, keepdim, std::string(interpolation)}, x, q);
}
Tensor quantile(const Tensor& x, double q, std::optional<int> dim, bool keepdim, std::string_view interpolation) {
  return quantile(x, share_for(x, q), dim, keepdim, interpolation);
}
Tensor nanquantile(const Tensor& x, double q, std::optional<int> dim, bool keepdim, std::string_view interpolation) {
  return nanquantile(x, share_for(x, q), dim, keepdim, interpolation);
}
ValuesIndices nanmedian(const Tensor& x, int dim, bool keepdim) {
  if (!x.is_floating()) return median(x, dim, keepdim);
  const int d = named_dim("nanmedian", x, dim);
  const Tensor line = atleast_1d(x), values = line.detach();
  check(line.sizes()[d] > 0, "nanmedian: dimension ", dim, " of ", x, " has no elements");
  // NaN sort last, so the lower median of the others is at (count - 1) / 2. Exact in f64, and no host synchronization.
  const Tensor middle = floor((sum(cast(logical_not(isnan(values)), f64), {d}, true) - 1.0) * 0.5);
  const Tensor place = cast(clamp(middle, 0, static_cast<double>(line.sizes()[d] - 1)), i64);
  const Tensor index = gather(argsort(values, d), d, place), y = gather(line, d, index);
  if (keepdim && x.dim() > 0) return {y, index};
  return {squeeze(y, d), squeeze(index, d)};
}
Tensor nanmedian(const Tensor& x) {
  if (x.numel() == 0 && x.is_floating()) return number_like(x, NAN);
  return nanmedian(flatten(x), 0).values;
}

namespace {

void kthvalue_samples(Samples& s) {
  s.call({s.distinct({3, 5})}, [](const Tensors& x) { return kthvalue(x[0], 2); });
  s.call({s.distinct({4, 2})}, [](const Tensors& x) { return kthvalue(x[0], 4, 0, true); });
  s.call({s.randn({})}, [](const Tensors& x) { return kthvalue(x[0], 1); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return kthvalue(x[0], 4); }, "k = 4 is not between 1 and the size 3");
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return kthvalue(x[0], 1, 1); }, "dim 1 is out of range");
}
void median_samples(Samples& s) {
  s.call({s.distinct({3, 6})}, [](const Tensors& x) { return median(x[0], 1); });
  s.call({s.distinct({5, 2})}, [](const Tensors& x) { return median(x[0], 0, true); });
  s.call({s.integers({7}, 0, 9)}, [](const Tensors& x) { return median(x[0], 0); });
  s.call({s.distinct({3, 3})}, [](const Tensors& x) { return median(x[0]); });
  s.error_call(
      {s.randn({2, 0})}, [](const Tensors& x) { return median(x[0], 1); }, "has no elements");
}
void mode_samples(Samples& s) {
  s.call({s.integers({4, 9}, 0, 4)}, [](const Tensors& x) { return mode(x[0]); });
  // differences break ties
  s.call({cast(s.integers({6, 2}, 0, 3), f64)}, [](const Tensors& x) { return mode(x[0], 0, true); }).differentiable =
      false;
  s.call({s.distinct({4, 1})}, [](const Tensors& x) { return mode(x[0]); });
  s.error_call(
      {s.randn({2, 0})}, [](const Tensors& x) { return mode(x[0]); }, "has no elements");
}
void nanmedian_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return nanmedian(x[0], 1).values; };
  s.call({s.distinct({3, 6})}, f);
  s.call({s.integers({3, 5}, 0, 9)}, f);
  s.call({s.distinct({3, 3})}, [](const Tensors& x) { return nanmedian(x[0]); });
  s.error_call({s.randn({2, 0})}, f, "has no elements");
}
MANTISSA_COMPOSITE(kthvalue, kthvalue_samples)
MANTISSA_COMPOSITE(median, median_samples)
MANTISSA_COMPOSITE(mode, mode_samples)
MANTISSA_COMPOSITE(nanmedian, nanmedian_samples)

}  // namespace
}  // namespace mantissa
