// Indexing composed of other indexing: take_along_dim, masked_scatter, put, index_reduce, unravel_index. Read first:
// ops/index.cpp, ops/select.cpp.
#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/named.h"
#include "ops/registry.h"

namespace mantissa {

Tensor take_along_dim(const Tensor& x, const Tensor& index, int dim) {
  check(index.dim() == x.dim(), "take_along_dim: index ", index, " and x ", x, " need as many dimensions");
  const int d = named_dim("take_along_dim", x, dim);
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
Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  check(index.numel() == source.numel(), "put: index ", index, " and source ", source, " need as many elements");
  return reshape(index_put(flatten(x), {flatten(index)}, flatten(source), accumulate), x.sizes());
}
Tensor index_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                    bool include_self) {
  const bool known = reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin";
  check(known, "index_reduce: reduce must be prod, mean, amax or amin, got \"", std::string(reduce), "\"");
  check(x.dim() >= 1 && index.dim() == 1, "index_reduce: x ", x, " needs at least 1 dimension and index ", index,
        " exactly 1");
  const int d = named_dim("index_reduce", x, dim);
  Dims sizes = x.sizes(), places = Dims::filled(x.dim(), 1);
  sizes[d] = places[d] = index.numel();
  check(source.sizes() == sizes, "index_reduce: source ", source, " must have shape ", sizes);
  return scatter_reduce(x, d, expand(reshape(index, places), sizes), source, reduce, include_self);
}
std::vector<Tensor> unravel_index(const Tensor& index, const Dims& shape) {
  check(!index.is_floating() && index.dtype() != boolean, "unravel_index: index must be integers, got ", index);
  std::vector<Tensor> places(static_cast<std::size_t>(shape.rank()));
  Tensor rest = cast(index, f64);  // exact, and unlike an integer division it needs no host check
  for (int d = shape.rank() - 1; d >= 0; --d) {
    check(shape[d] > 0, "unravel_index: shape ", shape, " has no elements");
    const auto size = static_cast<double>(shape[d]);
    const Tensor whole = floor(rest / size);
    places[static_cast<std::size_t>(d)] = cast(rest - whole * size, i64);
    rest = whole;
  }
  return places;
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
void put_samples(Samples& s) {
  s.call({s.randn({3, 4}), tensor({1, -1, 5}), s.randn({3})}, [](const Tensors& x) { return put(x[0], x[1], x[2]); });
  s.call({s.randn({3, 4}), tensor({{1, -1}, {1, 5}}), s.randn({2, 2})},
         [](const Tensors& x) { return put(x[0], x[1], x[2], true); });
  s.error_call(
      {s.randn({3}), tensor({0, 1}), s.randn({3})}, [](const Tensors& x) { return put(x[0], x[1], x[2]); },
      "need as many elements");
  s.error_call(
      {s.randn({3}), tensor({3}), s.randn({1})}, [](const Tensors& x) { return put(x[0], x[1], x[2]); },
      "out of range");
}
void index_reduce_samples(Samples& s) {
  for (const char* reduce : {"prod", "mean", "amax", "amin"}) {
    for (const bool self : {true, false}) {
      s.call({s.uniform({4, 2}, 0.5, 2), tensor({1, 3, 1}), s.uniform({3, 2}, 0.5, 2)},
             [=](const Tensors& x) { return index_reduce(x[0], 0, x[1], x[2], reduce, self); });
    }
  }
  const auto mean = [](const Tensors& x) { return index_reduce(x[0], -1, x[1], x[2], "mean"); };
  s.call({s.randn({2, 3}), tensor({0, 0}), s.randn({2, 2})}, mean);
  s.error_call({s.randn({2, 3}), tensor({0, 0}), s.randn({2, 3})}, mean, "must have shape [2, 2]");
  s.error_call({s.randn({2, 3}), tensor({0, 3}), s.randn({2, 2})}, mean, "index 3 is out of range");
  s.error_call(
      {s.randn({2}), tensor({0}), s.randn({1})},
      [](const Tensors& x) { return index_reduce(x[0], 0, x[1], x[2], "sum"); },
      "reduce must be prod, mean, amax or amin");
}
void unravel_index_samples(Samples& s) {
  s.call({s.integers({4}, 0, 24)}, [](const Tensors& x) { return unravel_index(x[0], {2, 3, 4}); });
  s.error_call({s.randn({2})}, [](const Tensors& x) { return unravel_index(x[0], {2}); }, "index must be integers");
  s.error_call(
      {s.integers({2}, 0, 2)},
      [](const Tensors& x) {
        return unravel_index(x[0], {2, 0});
      },
      "has no elements");
}
MANTISSA_COMPOSITE(take_along_dim, take_along_dim_samples)
MANTISSA_COMPOSITE(masked_scatter, masked_scatter_samples)
MANTISSA_COMPOSITE(put, put_samples)
MANTISSA_COMPOSITE(index_reduce, index_reduce_samples)
MANTISSA_COMPOSITE(unravel_index, unravel_index_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
