// Shapes made of views and cat: at least so many dimensions, parts by place, stacks, blocks along a diagonal.
// Read first: ops/rearrange_more.cpp.
#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

Tensor atleast_1d(const Tensor& x) { return x.dim() == 0 ? reshape(x, {1}) : x; }
Tensor atleast_2d(const Tensor& x) { return x.dim() == 0 ? reshape(x, {1, 1}) : x.dim() == 1 ? unsqueeze(x, 0) : x; }
Tensor atleast_3d(const Tensor& x) { return x.dim() > 2 ? x : unsqueeze(atleast_2d(x), 2); }
Tensor fliplr(const Tensor& x) {
  check(x.dim() >= 2, "fliplr: needs at least 2 dimensions, got ", x);
  return flip(x, {1});
}
Tensor flipud(const Tensor& x) {
  check(x.dim() >= 1, "flipud: needs at least 1 dimension, got ", x);
  return flip(x, {0});
}
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "broadcast_tensors: needs at least one tensor");
  Dims sizes;
  for (const Tensor& t : tensors) sizes = broadcast(sizes, t.sizes());
  std::vector<Tensor> all;
  for (const Tensor& t : tensors) all.push_back(expand(t, sizes));
  return all;
}

std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, int dim) {
  check(x.dim() > 0, "tensor_split: a scalar cannot be divided");
  check(sections > 0, "tensor_split: sections must be positive, got ", sections);
  const std::int64_t n = x.size(dim);
  std::vector<Tensor> parts;
  for (std::int64_t i = 0, at = 0; i < sections; ++i) {
    const std::int64_t end = at + n / sections + (i < n % sections ? 1 : 0);
    parts.push_back(slice(x, dim, at, end));
    at = end;
  }
  return parts;
}
std::vector<Tensor> tensor_split(const Tensor& x, const Dims& indices, int dim) {
  check(x.dim() > 0, "tensor_split: a scalar cannot be divided");
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (const std::int64_t end : indices) {
    parts.push_back(slice(x, dim, at, end));
    at = end;
  }
  parts.push_back(slice(x, dim, at));
  return parts;
}
namespace {
template <class Where>
std::vector<Tensor> split_along(const char* name, const Tensor& x, const Where& where, int dim, int rank) {
  check(x.dim() >= rank, name, ": needs at least ", rank, " dimensions, got ", x);
  if constexpr (std::is_same_v<Where, std::int64_t>) {
    check(where > 0 && x.size(dim) % where == 0, name, ": dimension ", dim, " of ", x, " does not divide into ", where,
          " equal parts");
  }
  return tensor_split(x, where, dim);
}
}  // namespace
std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections) {
  return split_along("hsplit", x, sections, x.dim() == 1 ? 0 : 1, 1);
}
std::vector<Tensor> hsplit(const Tensor& x, const Dims& indices) {
  return split_along("hsplit", x, indices, x.dim() == 1 ? 0 : 1, 1);
}
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections) { return split_along("vsplit", x, sections, 0, 2); }
std::vector<Tensor> vsplit(const Tensor& x, const Dims& indices) { return split_along("vsplit", x, indices, 0, 2); }
std::vector<Tensor> dsplit(const Tensor& x, std::int64_t sections) { return split_along("dsplit", x, sections, 2, 3); }
std::vector<Tensor> dsplit(const Tensor& x, const Dims& indices) { return split_along("dsplit", x, indices, 2, 3); }

Tensor column_stack(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "column_stack: needs at least one tensor");
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) parts.push_back(t.dim() <= 1 ? reshape(t, {t.numel(), 1}) : t);
  return cat(parts, 1);
}
Tensor dstack(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "dstack: needs at least one tensor");
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) parts.push_back(atleast_3d(t));
  return cat(parts, 2);
}
Tensor block_diag(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "block_diag: needs at least one tensor");
  std::int64_t columns = 0, at = 0;
  for (const Tensor& t : tensors) {
    check(t.dim() <= 2, "block_diag: needs matrices, vectors or scalars, got ", t);
    columns += atleast_2d(t).size(1);
  }
  std::vector<Tensor> rows;
  for (const Tensor& t : tensors) {
    const Tensor block = atleast_2d(t);
    rows.push_back(pad(block, {at, columns - at - block.size(1)}));
    at += block.size(1);
  }
  return cat(rows);
}
Tensor diagflat(const Tensor& x, std::int64_t offset) { return diag(flatten(x), offset); }

namespace {

template <Tensor (*f)(const Tensor&)> void shape_samples(Samples& s) {
  const auto call = [](const Tensors& x) { return f(x[0]); };
  if (f != fliplr && f != flipud) s.call({s.randn({})}, call);
  if (f != fliplr) s.call({s.randn({3})}, call);
  s.call({s.randn({2, 3})}, call);
  s.call({s.randn({2, 3, 2})}, call);
  if (f == fliplr) s.error_call({s.randn({3})}, call, "needs at least 2 dimensions");
  if (f == flipud) s.error_call({s.randn({})}, call, "needs at least 1 dimension");
}
void broadcast_tensors_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return broadcast_tensors(x); };
  s.call({s.randn({3, 1}), s.randn({2}), s.randn({})}, f);
  s.error_call({s.randn({3}), s.randn({2})}, f, "do not broadcast");
  s.error_call({}, f, "needs at least one tensor");
}
void tensor_split_samples(Samples& s) {
  s.call({s.randn({7, 2})}, [](const Tensors& x) { return tensor_split(x[0], 3); });
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return tensor_split(x[0], 5, -1); });
  s.call({s.randn({5})}, [](const Tensors& x) { return tensor_split(x[0], Dims{1, -1, 9}); });
  s.error_call({s.randn({})}, [](const Tensors& x) { return tensor_split(x[0], 3); }, "a scalar cannot be divided");
  s.error_call({s.randn({3})}, [](const Tensors& x) { return tensor_split(x[0], 0); }, "sections must be positive");
}
template <std::vector<Tensor> (*f)(const Tensor&, std::int64_t), std::vector<Tensor> (*g)(const Tensor&, const Dims&)>
void split_samples(Samples& s) {
  const auto three = [](const Tensors& x) { return f(x[0], 3); };
  s.call({s.randn({3, 3, 3})}, three);
  s.call({s.randn({2, 2, 3})}, [](const Tensors& x) { return g(x[0], Dims{1}); });
  s.error_call({s.randn({4, 4, 4})}, three, "does not divide into 3 equal parts");
  s.error_call({s.randn({})}, three, "needs at least");
}
void hsplit_samples(Samples& s) {
  s.call({s.randn({4})}, [](const Tensors& x) { return hsplit(x[0], 2); });
  split_samples<hsplit, hsplit>(s);
}
void column_stack_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return column_stack(x); };
  s.call({s.randn({3}), s.randn({3, 2})}, f);
  s.call({s.randn({}), s.randn({})}, f);
  s.error_call({s.randn({3}), s.randn({2})}, f, "sizes must agree");
  s.error_call({}, f, "needs at least one tensor");
}
void dstack_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return dstack(x); };
  s.call({s.randn({3}), s.randn({1, 3, 2})}, f);
  s.error_call({s.randn({3}), s.randn({2})}, f, "sizes must agree");
  s.error_call({}, f, "needs at least one tensor");
}
void block_diag_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return block_diag(x); };
  s.call({s.randn({2, 3}), s.randn({}), s.randn({2})}, f);
  s.call({s.integers({2, 1}, 0, 9), s.integers({1, 2}, 0, 9)}, f);
  s.error_call({s.randn({2, 2, 2})}, f, "needs matrices, vectors or scalars");
  s.error_call({}, f, "needs at least one tensor");
}
void diagflat_samples(Samples& s) {
  s.call({s.randn({2, 2})}, [](const Tensors& x) { return diagflat(x[0], -1); });
}
MANTISSA_COMPOSITE(atleast_1d, shape_samples<atleast_1d>)
MANTISSA_COMPOSITE(atleast_2d, shape_samples<atleast_2d>)
MANTISSA_COMPOSITE(atleast_3d, shape_samples<atleast_3d>)
MANTISSA_COMPOSITE(fliplr, shape_samples<fliplr>)
MANTISSA_COMPOSITE(flipud, shape_samples<flipud>)
MANTISSA_COMPOSITE(broadcast_tensors, broadcast_tensors_samples)
MANTISSA_COMPOSITE(tensor_split, tensor_split_samples)
MANTISSA_COMPOSITE(hsplit, hsplit_samples)
constexpr auto vsplit_samples = &split_samples<vsplit, vsplit>;
constexpr auto dsplit_samples = &split_samples<dsplit, dsplit>;
MANTISSA_COMPOSITE(vsplit, vsplit_samples)
MANTISSA_COMPOSITE(dsplit, dsplit_samples)
MANTISSA_COMPOSITE(column_stack, column_stack_samples)
MANTISSA_COMPOSITE(dstack, dstack_samples)
MANTISSA_COMPOSITE(block_diag, block_diag_samples)
MANTISSA_COMPOSITE(diagflat, diagflat_samples)

}  // namespace
}  // namespace mantissa
