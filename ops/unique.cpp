// The distinct values of a tensor, by sorting: unique, unique_consecutive.
#include "core/ops.h"
#include "core/recording.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {
namespace {

// Runs of equal elements of a vector: the first of each, the number of its run for every element, lengths.
UniqueResult runs_of(const Tensor& x) {
  const TensorOptions o{.dtype = i64, .device = x.device()};
  if (x.numel() == 0) return {x, zeros({0}, o), zeros({0}, o)};
  const Tensor begins =
      cat({ones({1}, {.dtype = boolean, .device = x.device()}), ne(slice(x, 0, 1), slice(x, 0, 0, x.numel() - 1))});
  const Tensor run = cumsum(cast(begins, i64), 0) - ones({}, o);
  return {masked_select(x, begins), run, bincount(run)};
}

// Integers in a range no longer than a few times their number are counted instead of sorted. Empty results where x is
// not so.
UniqueResult by_counting(const Tensor& x) {
  constexpr std::int64_t few = 2, least = 64;
  const std::int64_t n = x.numel();
  if (x.is_floating() || x.dtype() == boolean || !x.device().is_cpu() || n < least) return {};
  const auto low = min(x).item<std::int64_t>(), high = max(x).item<std::int64_t>();
  if (static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) >= static_cast<std::uint64_t>(few * n))
    return {};
  const Tensor from_low = cast(x, i64) - low, counts = bincount(from_low), present = counts != 0,
               found = flatten(nonzero(present)), place = cumsum(cast(present, i64), 0) - 1;
  return {cast(found + low, x.dtype()), index_select(place, 0, from_low), index_select(counts, 0, found)};
}

}  // namespace

UniqueResult unique(const Tensor& x) {
  check_may_read("unique", x, "the values say how long the result is");
  const Tensor flat = flatten(x.detach());
  if (UniqueResult r = by_counting(flat); r.values.defined()) {
    r.inverse = reshape(r.inverse, x.sizes());
    return r;
  }
  const Tensor order = argsort(flat, 0);
  UniqueResult r = runs_of(index_select(flat, 0, order));
  r.inverse = reshape(scatter(zeros_like(r.inverse), 0, order, r.inverse), x.sizes());
  return r;
}
UniqueResult unique_consecutive(const Tensor& x) {
  check_may_read("unique_consecutive", x, "the values say how long the result is");
  UniqueResult r = runs_of(flatten(x.detach()));
  r.inverse = reshape(r.inverse, x.sizes());
  return r;
}

namespace {

void unique_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const UniqueResult r = unique(x[0]);
    return Tensors{r.values, r.inverse, r.counts};
  };
  s.call({s.integers({3, 5}, 0, 4)}, f);
  s.call({cast(s.integers({8}, 0, 3), f64)}, f);
  s.call({s.integers({3, 40}, -7, 50)}, f);  // counted
  s.call({s.integers({0}, 0, 3)}, f);
}
void unique_consecutive_samples(Samples& s) {
  s.call({s.integers({12}, 0, 2)}, [](const Tensors& x) {
    const UniqueResult r = unique_consecutive(x[0]);
    return Tensors{r.values, r.inverse, r.counts};
  });
}
MANTISSA_COMPOSITE(unique, unique_samples, .differentiable = false)
MANTISSA_COMPOSITE(unique_consecutive, unique_consecutive_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
