// Shapes and new tensors made of views, copies and index_select: movedim, rot90, windows along a dimension,
// stacks, and what is filled by a rule. Read first: ops/rearrange.cpp.
#include <cmath>

#include "core/ops.h"
#include "ops/apply.h"
#include "ops/device_table.h"
#include "ops/registry.h"

namespace mantissa {

std::vector<Tensor> split(const Tensor& x, const Dims& sizes, int dim) {
  check(x.dim() > 0, "split: a scalar cannot be divided");
  std::int64_t total = 0;
  for (std::int64_t n : sizes) {
    check(n >= 0, "split: sizes ", sizes, " must not be negative");
    total += n;
  }
  check(total == x.size(dim), "split: sizes ", sizes, " add up to ", total, ", dimension ", dim, " of ", x, " has ",
        x.size(dim));
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (std::int64_t n : sizes) {
    parts.push_back(slice(x, dim, at, at + n));
    at += n;
  }
  return parts;
}
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  check(x.dim() > 0, "narrow: a scalar has no dimensions");
  const std::int64_t n = x.size(dim), from = start < 0 ? start + n : start;
  check(from >= 0 && length >= 0 && from <= n && length <= n - from, "narrow: ", length, " elements from ", start,
        " do not lie in dimension ", dim, " of ", x);
  return slice(x, dim, from, from + length);
}
Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination) {
  check(source.rank() == destination.rank(), "movedim: ", source.rank(), " dimensions to ", destination.rank(),
        " places");
  Dims order = Dims::filled(x.dim(), -1);
  bool moved[Dims::max_rank] = {};
  for (int i = 0; i < source.rank(); ++i) {
    const int from = wrap_dim(source[i], x.dim()), to = wrap_dim(destination[i], x.dim());
    check(!moved[from] && order[to] < 0, "movedim: source ", source, " or destination ", destination,
          " names a dimension twice");
    moved[from] = true;
    order[to] = from;
  }
  for (int to = 0, from = 0; to < x.dim(); ++to) {
    if (order[to] >= 0) continue;
    while (moved[from]) ++from;
    order[to] = from++;
  }
  return permute(x, order);
}
Tensor rot90(const Tensor& x, int k, const Dims& dims) {
  check(dims.rank() == 2 && x.dim() >= 2, "rot90: needs 2 dimensions of x ", x, ", got ", dims);
  const int a = wrap_dim(dims[0], x.dim()), b = wrap_dim(dims[1], x.dim());
  check(a != b, "rot90: dims ", dims, " name dimension ", a, " twice");
  switch ((k % 4 + 4) % 4) {
    case 1: return flip(transpose(x, a, b), {a});
    case 2: return flip(x, {a, b});
    case 3: return flip(transpose(x, a, b), {b});
    default: return clone(x);
  }
}
Tensor unfold(const Tensor& x, int dim, std::int64_t size, std::int64_t step) {
  check(x.dim() > 0, "unfold: a scalar has no dimensions");
  const int d = wrap_dim(dim, x.dim());
  const std::int64_t n = x.sizes()[d];
  check(size >= 0 && size <= n && step > 0, "unfold: windows of ", size, " with step ", step,
        " do not fit into dimension ", dim, " of ", x);
  const std::int64_t windows = (n - size) / step + 1;
  std::vector<std::int64_t> at;
  for (std::int64_t w = 0; w < windows; ++w) for (std::int64_t i = 0; i < size; ++i) at.push_back(w * step + i);
  const Tensor picked = index_select(x, d, device_table(at, {windows * size}, x.device()));
  return movedim(unflatten(picked, d, {windows, size}), {d + 1}, {-1});
}
Tensor unflatten(const Tensor& x, int dim, const Dims& sizes) {
  const int d = wrap_dim(dim, x.dim());
  check(x.dim() > 0, "unflatten: a scalar has no dimensions");
  const Dims parts = infer_shape(sizes, x.sizes()[d]);
  Dims shape;
  for (int i = 0; i < d; ++i) shape.push_back(x.sizes()[i]);
  for (std::int64_t s : parts) shape.push_back(s);
  for (int i = d + 1; i < x.dim(); ++i) shape.push_back(x.sizes()[i]);
  return reshape(x, shape);
}
Tensor broadcast_to(const Tensor& x, const Dims& shape) { return expand(x, shape); }
Tensor channel_shuffle(const Tensor& x, int groups) {
  check(x.dim() >= 3, "channel_shuffle: x must be [N, C, ...], got ", x);
  check(groups >= 1 && x.size(1) % groups == 0, "channel_shuffle: ", x.size(1), " channels do not divide into ", groups,
        " groups");
  return flatten(transpose(unflatten(x, 1, {groups, x.size(1) / groups}), 1, 2), 1, 2);
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

Tensor full_like(const Tensor& x, double value) {
  return full(x.sizes(), value, {.dtype = x.dtype(), .device = x.device()});
}
Tensor logspace(double begin, double end, std::int64_t count, double base, TensorOptions o) {
  const Tensor exponent = linspace(begin, end, count, {.dtype = f64, .device = o.device});
  Tensor y = cast(pow(full(exponent.sizes(), base, {.dtype = f64, .device = o.device}), exponent), o.dtype);
  if (o.requires_grad) y.requires_grad_();
  return y;
}
namespace {
Tensor triangle_indices(const char* name, std::int64_t rows, std::int64_t columns, std::int64_t offset, bool lower) {
  check(rows >= 0 && columns >= 0, name, ": ", rows, " rows and ", columns, " columns must not be negative");
  std::vector<std::int64_t> row, column;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      if (lower ? j - i <= offset : j - i >= offset) row.push_back(i), column.push_back(j);
    }
  }
  const auto n = static_cast<std::int64_t>(row.size());
  row.insert(row.end(), column.begin(), column.end());
  return from_data<std::int64_t>(row, {2, n});
}
}  // namespace
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset) {
  return triangle_indices("tril_indices", rows, columns, offset, true);
}
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset) {
  return triangle_indices("triu_indices", rows, columns, offset, false);
}

namespace {

void split_sizes_samples(Samples& s) {
  s.call({s.randn({2, 5})}, [](const Tensors& x) { return split(x[0], Dims{2, 0, 3}, 1); });
  s.error_call({s.randn({5})}, [](const Tensors& x) { return split(x[0], Dims{2, 2}, 0); }, "add up to 4");
}
void narrow_samples(Samples& s) {
  s.call({s.randn({3, 5})}, [](const Tensors& x) { return narrow(x[0], 1, -4, 3); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return narrow(x[0], 0, 2, 2); },
      "2 elements from 2 do not lie in dimension 0");
}
void movedim_samples(Samples& s) {
  s.call({s.randn({2, 3, 4})}, [](const Tensors& x) { return movedim(x[0], {0, -1}, {1, 0}); });
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return movedim(x[0], {0, 0}, {1, 0});
      },
      "names a dimension twice");
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return movedim(x[0], {0}, {1, 0});
      },
      "1 dimensions to 2 places");
}
void rot90_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return rot90(x[0]); });
  s.call({s.randn({2, 3, 2})}, [](const Tensors& x) { return rot90(x[0], -1, {1, 2}); });
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return rot90(x[0], 2); });
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return rot90(x[0], 1, {1, -1});
      },
      "name dimension 1 twice");
}
void unflatten_samples(Samples& s) {
  s.call({s.randn({2, 6, 2})}, [](const Tensors& x) { return unflatten(x[0], 1, {2, -1}); });
  s.error_call(
      {s.randn({2, 6})},
      [](const Tensors& x) {
        return unflatten(x[0], 1, {4, -1});
      },
      "shape [4, -1] does not divide 6 elements");
}
void unfold_windows_samples(Samples& s) {
  s.call({s.randn({2, 7, 2})}, [](const Tensors& x) { return unfold(x[0], 1, 3, 2); });
  s.call({s.randn({5})}, [](const Tensors& x) { return unfold(x[0], 0, 5, 1); });
  s.error_call(
      {s.randn({5})}, [](const Tensors& x) { return unfold(x[0], 0, 6, 1); }, "windows of 6 with step 1 do not fit");
}
void broadcast_to_samples(Samples& s) {
  s.call({s.randn({3, 1})}, [](const Tensors& x) { return broadcast_to(x[0], {2, 3, 4}); });
}
void channel_shuffle_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return channel_shuffle(x[0], 2); };
  s.call({s.randn({2, 6, 3})}, f);
  s.error_call({s.randn({2, 5, 3})}, f, "5 channels do not divide into 2 groups");
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
void full_like_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return full_like(x[0], 0.5); });
}
void logspace_samples(Samples& s) {
  s.call({}, [](const Tensors&) { return logspace(-1, 2, 4, 2, {.dtype = f64}); });
}
void tril_indices_samples(Samples& s) {
  s.call({}, [](const Tensors&) { return tril_indices(3, 4, -1); });
  s.error_call(
      {}, [](const Tensors&) { return tril_indices(-1, 4); }, "must not be negative");
}
void triu_indices_samples(Samples& s) {
  s.call({}, [](const Tensors&) { return triu_indices(3, 4, 1); });
  s.error_call(
      {}, [](const Tensors&) { return triu_indices(2, -1); }, "must not be negative");
}
const RegisterOp split_sizes({.name = "split_sizes", .composite = true, .samples = &split_sizes_samples});
const RegisterOp unfold_windows({.name = "unfold_windows", .composite = true, .samples = &unfold_windows_samples});
MANTISSA_COMPOSITE(narrow, narrow_samples)
MANTISSA_COMPOSITE(movedim, movedim_samples)
MANTISSA_COMPOSITE(rot90, rot90_samples)
MANTISSA_COMPOSITE(unflatten, unflatten_samples)
MANTISSA_COMPOSITE(broadcast_to, broadcast_to_samples)
MANTISSA_COMPOSITE(channel_shuffle, channel_shuffle_samples)
MANTISSA_COMPOSITE(hstack, hstack_samples)
MANTISSA_COMPOSITE(vstack, vstack_samples)
MANTISSA_COMPOSITE(full_like, full_like_samples, .differentiable = false)
MANTISSA_COMPOSITE(logspace, logspace_samples, .differentiable = false)
MANTISSA_COMPOSITE(tril_indices, tril_indices_samples, .differentiable = false)
MANTISSA_COMPOSITE(triu_indices, triu_indices_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
