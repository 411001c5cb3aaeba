// combinations of the elements of one vector, and Cartesian products of several.
#include <vector>

#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/device_table.h"
#include "ops/registry.h"

namespace mantissa {

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
MANTISSA_COMPOSITE(combinations, combinations_samples)
MANTISSA_COMPOSITE(cartesian_prod, cartesian_prod_samples)

}  // namespace
}  // namespace mantissa
