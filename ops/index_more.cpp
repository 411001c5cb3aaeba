// Indexing made of index_put, scatter_reduce and tables of places: put, index_reduce, combinations.
// Read first: ops/select_more.cpp.
#include <vector>

#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/device_table.h"
#include "ops/registry.h"

namespace mantissa {

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
  const int d = wrap_dim(dim, x.dim());
  Dims sizes = x.sizes(), places = Dims::filled(x.dim(), 1);
  sizes[d] = places[d] = index.numel();
  check(source.sizes() == sizes, "index_reduce: source ", source, " must have shape ", sizes);
  return scatter_reduce(x, d, expand(reshape(index, places), sizes), source, reduce, include_self);
}
std::vector<Tensor> unravel_index(const Tensor& index, const Dims& shape) {
  check(!index.is_floating() && index.dtype() != boolean, "unravel_index: index must be integers, got ", index);
  std::vector<Tensor> places(static_cast<std::size_t>(shape.rank()));
  Tensor rest = cast(index, f64);  // exact, and unlike a division of integers it asks the host for nothing
  for (int d = shape.rank() - 1; d >= 0; --d) {
    check(shape[d] > 0, "unravel_index: shape ", shape, " has no elements");
    const auto size = static_cast<double>(shape[d]);
    const Tensor whole = floor(rest / size);
    places[static_cast<std::size_t>(d)] = cast(rest - whole * size, i64);
    rest = whole;
  }
  return places;
}
Tensor combinations(const Tensor& x, int r, bool with_replacement) {
  check(x.dim() == 1, "combinations: needs a vector, got ", x);
  check(r >= 0, "combinations: r must not be negative, got ", r);
  if (r == 0) return slice(x, 0, 0, 0);
  std::vector<std::int64_t> all, now;
  const std::int64_t n = x.size(0);
  const auto choose = [&](const auto& self, std::int64_t from) -> void {
    if (now.size() == static_cast<std::size_t>(r))
      return static_cast<void>(all.insert(all.end(), now.begin(), now.end()));
    for (std::int64_t i = from; i < n; ++i) {
      now.push_back(i);
      self(self, with_replacement ? i : i + 1);
      now.pop_back();
    }
  };
  choose(choose, 0);
  const auto count = static_cast<std::int64_t>(all.size());
  return reshape(index_select(x, 0, device_table(all, {count}, x.device())), {count / r, r});
}
Tensor cartesian_prod(std::span<const Tensor> vectors) {
  check(!vectors.empty(), "cartesian_prod: needs at least one tensor");
  for (const Tensor& t : vectors) check(t.dim() == 1, "cartesian_prod: needs vectors, got ", t);
  if (vectors.size() == 1) return vectors[0];
  std::vector<Tensor> columns;
  for (const Tensor& t : meshgrid(vectors)) columns.push_back(flatten(t));
  return stack(columns, 1);
}

namespace {

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
void combinations_samples(Samples& s) {
  s.call({s.randn({4})}, [](const Tensors& x) { return combinations(x[0]); });
  s.call({s.randn({3})}, [](const Tensors& x) { return combinations(x[0], 3, true); });
  s.error_call(
      {s.randn({3, 3})}, [](const Tensors& x) { return combinations(x[0]); }, "needs a vector");
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return combinations(x[0], -1); }, "r must not be negative, got -1");
}
void cartesian_prod_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return cartesian_prod(x); };
  s.call({s.randn({2}), s.randn({3})}, f);
  s.error_call({s.randn({2}), s.randn({2, 2})}, f, "needs vectors");
  s.error_call({}, f, "needs at least one tensor");
}
MANTISSA_COMPOSITE(put, put_samples)
MANTISSA_COMPOSITE(index_reduce, index_reduce_samples)
MANTISSA_COMPOSITE(unravel_index, unravel_index_samples, .differentiable = false)
MANTISSA_COMPOSITE(combinations, combinations_samples)
MANTISSA_COMPOSITE(cartesian_prod, cartesian_prod_samples)

}  // namespace
}  // namespace mantissa
