// Choosing elements, continued: take_along_dim, masked_scatter, bucketize, and the distinct values of a
// tensor. Made of gather, scatter and sort. Read first: ops/select.cpp, ops/sort.cpp.
#include "core/ops.h"
#include "core/recording.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

Tensor take_along_dim(const Tensor& x, const Tensor& index, int dim) {
  check(index.dim() == x.dim(), "take_along_dim: index ", index, " and x ", x, " need as many dimensions");
  const int d = wrap_dim(dim, x.dim());
  if (x.dim() == 0) return gather(x, 0, index);
  Dims a = x.sizes(), b = index.sizes();
  a[d] = b[d] = 1;
  Dims sizes = broadcast(a, b), from = sizes;
  sizes[d] = index.sizes()[d];
  from[d] = x.sizes()[d];
  return gather(expand(x, from), d, expand(index, sizes));
}
Tensor take_along_dim(const Tensor& x, const Tensor& index) { return take_along_dim(flatten(x), flatten(index), 0); }
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  check(mask.dtype() == boolean, "masked_scatter: the mask must be bool, got ", mask.dtype());
  check(source.dtype() == x.dtype(), "masked_scatter: the source is ", source, " and x ", x, "; cast one with to()");
  const Dims sizes = broadcast(x.sizes(), mask.sizes());
  const Tensor places = flatten(nonzero(flatten(expand(mask, sizes))));
  check(source.numel() >= places.numel(), "masked_scatter: the mask takes ", places.numel(), " elements, the source ",
        source, " has ", source.numel());
  const Tensor flat = flatten(expand(x, sizes));
  return reshape(index_copy(flat, 0, places, slice(flatten(source), 0, 0, places.numel())), sizes);
}
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right) {
  check(boundaries.dim() == 1, "bucketize: boundaries must have 1 dimension, got ", boundaries);
  return searchsorted(boundaries, x, right);
}

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
}  // namespace

UniqueResult unique(const Tensor& x) {
  check_may_read("unique", x, "the values say how long the result is");
  const Tensor flat = flatten(x.detach()), order = argsort(flat, 0);
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

void take_along_dim_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return take_along_dim(x[0], x[1], 1); };
  s.call({s.randn({3, 4}), s.integers({1, 2}, 0, 4)}, f);
  s.call({s.randn({1, 4}), s.integers({3, 2}, 0, 4)}, f);
  s.call({s.randn({3, 4}), s.integers({5}, 0, 12)}, [](const Tensors& x) { return take_along_dim(x[0], x[1]); });
  s.error_call({s.randn({3, 4}), s.integers({2}, 0, 4)}, f, "need as many dimensions");
  s.error_call({s.randn({3, 4}), s.integers({3, 2}, 4, 5)}, f, "index 4 is out of range");
}
void masked_scatter_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    return masked_scatter(x[0], (tensor({1, 0, 1}) != 0).to(x[0].device()), x[1]);
  };
  s.call({s.randn({2, 3}), s.randn({5})}, f);
  s.error_call({s.randn({2, 3}), s.randn({3})}, f, "the mask takes 4 elements");
  s.error_call({s.randn({2, 3}), s.integers({5}, 0, 3)}, f, "cast one with to()");
  s.error_call(
      {s.randn({2}), s.randn({2})}, [](const Tensors& x) { return masked_scatter(x[0], x[1], x[1]); },
      "the mask must be bool");
}
void bucketize_samples(Samples& s) {
  s.call({s.randn({2, 3}), arange(-1, 2, 0.5, {.dtype = f64})}, [](const Tensors& x) { return bucketize(x[0], x[1]); });
  s.call({s.integers({6}, 0, 5), arange(4)}, [](const Tensors& x) { return bucketize(x[0], x[1], true); });
  s.error_call(
      {s.randn({2}), s.randn({2, 2})}, [](const Tensors& x) { return bucketize(x[0], x[1]); },
      "boundaries must have 1 dimension");
}
void unique_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const UniqueResult r = unique(x[0]);
    return Tensors{r.values, r.inverse, r.counts};
  };
  s.call({s.integers({3, 5}, 0, 4)}, f);
  s.call({cast(s.integers({8}, 0, 3), f64)}, f);
  s.call({s.integers({0}, 0, 3)}, f);
}
void unique_consecutive_samples(Samples& s) {
  s.call({s.integers({12}, 0, 2)}, [](const Tensors& x) {
    const UniqueResult r = unique_consecutive(x[0]);
    return Tensors{r.values, r.inverse, r.counts};
  });
}
MANTISSA_COMPOSITE(take_along_dim, take_along_dim_samples)
MANTISSA_COMPOSITE(masked_scatter, masked_scatter_samples)
MANTISSA_COMPOSITE(bucketize, bucketize_samples, .differentiable = false)
MANTISSA_COMPOSITE(unique, unique_samples, .differentiable = false)
MANTISSA_COMPOSITE(unique_consecutive, unique_consecutive_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
