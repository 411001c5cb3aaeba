// The distinct values of a tensor, or its distinct slices, by sorting: unique, unique_consecutive.
#include <algorithm>
#include <numeric>

#include "core/kernel.h"
#include "core/ops.h"
#include "core/recording.h"
#include "core/unique.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

// order := the stable lexicographic order of the rows, contiguous; order holds 0, 1, 2, ...
MANTISSA_CUDA_KERNEL(argsort_rows, const View& order, const View& rows)

namespace {

// Runs of equal elements of a vector: the first of each, the run number of every element, and lengths.
UniqueResult runs_of(const Tensor& x) {
  const TensorOptions o{.dtype = i64, .device = x.device()};
  if (x.numel() == 0) return {x, zeros({0}, o), zeros({0}, o)};
  const Tensor begins =
      cat({ones({1}, {.dtype = boolean, .device = x.device()}), ne(slice(x, 0, 1), slice(x, 0, 0, x.numel() - 1))});
  const Tensor run = cumsum(cast(begins, i64), 0) - ones({}, o);
  return {masked_select(x, begins), run, bincount(run)};
}

// Integers whose range is at most a few times their number are counted instead of sorted. Returns empty results if x
// does not qualify.
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

// The stable lexicographic order of the rows of x [n, m]. NaN comes last.
Tensor order_of_rows(const Tensor& x) {
  const Tensor rows = contiguous(is_half(x.dtype()) ? cast(x, f32) : x);
  const std::int64_t n = rows.size(0), m = rows.size(1);
  const Tensor order = arange(n, {.device = x.device()});
  if (!x.device().is_cpu()) {
    cuda_backend::prepare(&cuda_backend::argsort_rows, x.device())(order.view(), rows.view());
    return order;
  }
  std::int64_t* const at = order.data<std::int64_t>();
  visit(rows.dtype(), [&]<class T> {
    const T* const p = rows.data<T>();
    const auto less = [](T a, T b) { return a < b || (a == a && b != b); };
    std::stable_sort(at, at + n, [&](std::int64_t i, std::int64_t j) {
      return std::lexicographical_compare(p + i * m, p + (i + 1) * m, p + j * m, p + (j + 1) * m, less);
    });
  });
  return order;
}
Tensor as_rows(const Tensor& x, int dim) {
  const Tensor front = movedim(x.detach(), dim, 0);
  return reshape(front, {front.size(0), front.size(0) > 0 ? front.numel() / front.size(0) : 0});
}
// Runs of equal rows. `values` holds the index of the first row of each.
UniqueResult runs_of_rows(const Tensor& rows) {
  const TensorOptions o{.dtype = i64, .device = rows.device()};
  const std::int64_t n = rows.size(0);
  if (n == 0) return {zeros({0}, o), zeros({0}, o), zeros({0}, o)};
  const Tensor other = any(ne(slice(rows, 0, 1), slice(rows, 0, 0, n - 1)), {1});
  const Tensor begins = cat({ones({1}, {.dtype = boolean, .device = rows.device()}), other});
  const Tensor run = cumsum(cast(begins, i64), 0) - ones({}, o);
  return {masked_select(arange(n, o), begins), run, bincount(run)};
}
int checked_dim(const char* name, const Tensor& x, int dim) {
  check(dim >= -x.dim() && dim < x.dim(), name, ": dim ", dim, " is out of range for ", x);
  return dim < 0 ? dim + x.dim() : dim;
}

}  // namespace

UniqueResult unique(const Tensor& x, int dim) {
  check_may_read("unique", x, "the values say how long the result is");
  const int d = checked_dim("unique", x, dim);
  const Tensor rows = as_rows(x, d), order = order_of_rows(rows);
  UniqueResult r = runs_of_rows(index_select(rows, 0, order));
  r.values = index_select(x.detach(), d, index_select(order, 0, r.values));
  r.inverse = scatter(zeros_like(r.inverse), 0, order, r.inverse);
  return r;
}
UniqueResult unique_consecutive(const Tensor& x, int dim) {
  check_may_read("unique_consecutive", x, "the values say how long the result is");
  const int d = checked_dim("unique_consecutive", x, dim);
  UniqueResult r = runs_of_rows(as_rows(x, d));
  r.values = index_select(x.detach(), d, r.values);
  return r;
}

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
  for (int dim : {0, -1}) {
    const auto slices = [dim](const Tensors& x) {
      const UniqueResult r = unique(x[0], dim);
      return Tensors{r.values, r.inverse, r.counts};
    };
    s.call({s.integers({6, 2}, 0, 2)}, slices);
    s.call({cast(s.integers({2, 3, 9}, 0, 2), f64)}, slices);
  }
  s.error_call(
      {s.integers({3}, 0, 3)}, [](const Tensors& x) { return unique(x[0], 1).values; },
      "unique: dim 1 is out of range");
}
void unique_consecutive_samples(Samples& s) {
  s.call({s.integers({12}, 0, 2)}, [](const Tensors& x) {
    const UniqueResult r = unique_consecutive(x[0]);
    return Tensors{r.values, r.inverse, r.counts};
  });
  s.call({s.integers({2, 12}, 0, 2)}, [](const Tensors& x) {
    const UniqueResult r = unique_consecutive(x[0], 1);
    return Tensors{r.values, r.inverse, r.counts};
  });
}
MANTISSA_COMPOSITE(unique, unique_samples, .differentiable = false)
MANTISSA_COMPOSITE(unique_consecutive, unique_consecutive_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
