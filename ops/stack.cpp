// Joining tensors with cat (ops/copy.cpp): stack and its variants, and block-diagonal matrices.
#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {

Tensor stack(std::span<const Tensor> tensors, int dim) {
  std::vector<Tensor> rows;
  for (const Tensor& t : tensors) {
    check(t.sizes() == tensors[0].sizes(), "stack: tensors of sizes ", tensors[0].sizes(), " and ", t.sizes(),
          " differ");
    rows.push_back(unsqueeze(t, dim));
  }
  return cat(rows, dim);
}
Tensor hstack(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "hstack: needs at least one tensor");
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) parts.push_back(t.dim() == 0 ? unsqueeze(t, 0) : t);
  return cat(parts, parts[0].dim() == 1 ? 0 : 1);
}
Tensor vstack(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "vstack: needs at least one tensor");
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors)
    parts.push_back(t.dim() == 0 ? reshape(t, {1, 1}) : t.dim() == 1 ? unsqueeze(t, 0) : t);
  return cat(parts, 0);
}
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

namespace {

void stack_samples(Samples& s) {
  s.call({s.randn({2, 3}), s.randn({2, 3})}, [](const Tensors& x) { return stack(x, 1); });
  s.call({s.randn({}), s.randn({})}, [](const Tensors& x) { return stack(x); });
  s.error_call(
      {s.randn({2}), s.randn({3})}, [](const Tensors& x) { return stack(x); }, "sizes [2] and [3] differ");
}
void hstack_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return hstack(x); };
  s.call({s.randn({2, 3}), s.randn({2, 1})}, f);
  s.call({s.randn({2}), s.randn({})}, f);
  s.error_call({s.randn({2, 3}), s.randn({3, 3})}, f, "sizes must agree");
}
void vstack_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return vstack(x); };
  s.call({s.randn({2, 3}), s.randn({3})}, f);
  s.error_call({s.randn({2, 3}), s.randn({2})}, f, "sizes must agree");
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
MANTISSA_COMPOSITE(stack, stack_samples)
MANTISSA_COMPOSITE(hstack, hstack_samples)
MANTISSA_COMPOSITE(vstack, vstack_samples)
MANTISSA_COMPOSITE(column_stack, column_stack_samples)
MANTISSA_COMPOSITE(dstack, dstack_samples)
MANTISSA_COMPOSITE(block_diag, block_diag_samples)

}  // namespace
}  // namespace mantissa
