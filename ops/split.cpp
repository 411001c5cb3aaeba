// Parts of a tensor along a dimension, all of them views: split, chunk, unbind, narrow, tensor_split and variants.
// Read first: slice and select in ops/view.cpp.
#include <algorithm>

#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/length.h"
#include "ops/named.h"
#include "ops/registry.h"

namespace mantissa {
namespace {

// Guards against mistakes that would create mostly empty parts until memory runs out.
void check_parts(const char* name, std::int64_t parts) {
  check(parts <= 1 << 24, name, ": ", parts, " parts are too many");
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, std::int64_t size, int dim) {
  check(size > 0, "split: size ", size, " must be positive");
  check(x.dim() > 0, "split: a scalar cannot be split");
  std::vector<Tensor> parts;
  const std::int64_t n = named_size("split", x, dim);
  for (std::int64_t at = 0; at < n || at == 0; at += size) parts.push_back(slice(x, dim, at, std::min(at + size, n)));
  return parts;
}
std::vector<Tensor> split(const Tensor& x, const Dims& sizes, int dim) {
  check(x.dim() > 0, "split: a scalar cannot be divided");
  std::int64_t total = 0;
  for (std::int64_t n : sizes) {
    check(n >= 0, "split: sizes ", sizes, " must not be negative");
    check_length("split", "a size of", n);
    total += n;
  }
  const std::int64_t whole = named_size("split", x, dim);
  check(total == whole, "split: sizes ", sizes, " add up to ", total, ", dimension ", dim, " of ", x, " has ", whole);
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (std::int64_t n : sizes) {
    parts.push_back(slice(x, dim, at, at + n));
    at += n;
  }
  return parts;
}
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int dim) {
  check(chunks > 0, "chunk: the number of chunks ", chunks, " must be positive");
  check(x.dim() > 0, "chunk: a scalar cannot be divided");
  const std::int64_t n = named_size("chunk", x, dim);
  if (n == 0) {
    check_parts("chunk", chunks);
    return std::vector<Tensor>(static_cast<std::size_t>(chunks), x);
  }
  return split(x, n / chunks + (n % chunks != 0), dim);
}
std::vector<Tensor> unbind(const Tensor& x, int dim) {
  check(x.dim() > 0, "unbind: a scalar cannot be divided");
  std::vector<Tensor> parts;
  for (std::int64_t i = 0, n = named_size("unbind", x, dim); i < n; ++i) parts.push_back(select(x, dim, i));
  return parts;
}
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  check(x.dim() > 0, "narrow: a scalar has no dimensions");
  const std::int64_t n = named_size("narrow", x, dim), from = start < 0 ? start + n : start;
  check(from >= 0 && length >= 0 && from <= n && length <= n - from, "narrow: ", length, " elements from ", start,
        " do not lie in dimension ", dim, " of ", x);
  return slice(x, dim, from, from + length);
}

std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, int dim) {
  check(x.dim() > 0, "tensor_split: a scalar cannot be divided");
  check(sections > 0, "tensor_split: sections must be positive, got ", sections);
  check_parts("tensor_split", sections);
  const std::int64_t n = named_size("tensor_split", x, dim);
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

namespace {

void split_samples(Samples& s) {
  s.call({s.randn({7, 2})}, [](const Tensors& x) { return split(x[0], 3); });
  s.call({s.randn({2, 4})}, [](const Tensors& x) { return split(x[0], 2, -1); });
  s.error_call({s.randn({2})}, [](const Tensors& x) { return split(x[0], 0); }, "size 0 must be positive");
}
void split_sizes_samples(Samples& s) {
  s.call({s.randn({2, 5})}, [](const Tensors& x) { return split(x[0], Dims{2, 0, 3}, 1); });
  s.error_call({s.randn({5})}, [](const Tensors& x) { return split(x[0], Dims{2, 2}, 0); }, "add up to 4");
}
void chunk_samples(Samples& s) {
  s.call({s.randn({7, 2})}, [](const Tensors& x) { return chunk(x[0], 3); });
  s.call({s.randn({2, 4})}, [](const Tensors& x) { return chunk(x[0], 2, -1); });
  s.error_call({s.randn({2})}, [](const Tensors& x) { return chunk(x[0], 0); }, "must be positive");
}
void unbind_samples(Samples& s) {
  s.call({s.randn({3, 2})}, [](const Tensors& x) { return unbind(x[0]); });
  s.call({s.randn({3, 2})}, [](const Tensors& x) { return unbind(x[0], -1); });
  s.error_call({s.randn({})}, [](const Tensors& x) { return unbind(x[0]); }, "a scalar cannot be divided");
}
void narrow_samples(Samples& s) {
  s.call({s.randn({3, 5})}, [](const Tensors& x) { return narrow(x[0], 1, -4, 3); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return narrow(x[0], 0, 2, 2); },
      "2 elements from 2 do not lie in dimension 0");
}
void tensor_split_samples(Samples& s) {
  s.call({s.randn({7, 2})}, [](const Tensors& x) { return tensor_split(x[0], 3); });
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return tensor_split(x[0], 5, -1); });
  s.call({s.randn({5})}, [](const Tensors& x) { return tensor_split(x[0], Dims{1, -1, 9}); });
  s.error_call({s.randn({})}, [](const Tensors& x) { return tensor_split(x[0], 3); }, "a scalar cannot be divided");
  s.error_call({s.randn({3})}, [](const Tensors& x) { return tensor_split(x[0], 0); }, "sections must be positive");
}
template <std::vector<Tensor> (*f)(const Tensor&, std::int64_t), std::vector<Tensor> (*g)(const Tensor&, const Dims&)>
void equal_split_samples(Samples& s) {
  const auto three = [](const Tensors& x) { return f(x[0], 3); };
  s.call({s.randn({3, 3, 3})}, three);
  s.call({s.randn({2, 2, 3})}, [](const Tensors& x) { return g(x[0], Dims{1}); });
  s.error_call({s.randn({4, 4, 4})}, three, "does not divide into 3 equal parts");
  s.error_call({s.randn({})}, three, "needs at least");
}
void hsplit_samples(Samples& s) {
  s.call({s.randn({4})}, [](const Tensors& x) { return hsplit(x[0], 2); });
  equal_split_samples<hsplit, hsplit>(s);
}
MANTISSA_COMPOSITE(split, split_samples)
const RegisterOp split_sizes({.name = "split_sizes", .composite = true, .samples = &split_sizes_samples});
MANTISSA_COMPOSITE(chunk, chunk_samples)
MANTISSA_COMPOSITE(unbind, unbind_samples)
MANTISSA_COMPOSITE(narrow, narrow_samples)
MANTISSA_COMPOSITE(tensor_split, tensor_split_samples)
MANTISSA_COMPOSITE(hsplit, hsplit_samples)
constexpr auto vsplit_samples = &equal_split_samples<vsplit, vsplit>;
constexpr auto dsplit_samples = &equal_split_samples<dsplit, dsplit>;
MANTISSA_COMPOSITE(vsplit, vsplit_samples)
MANTISSA_COMPOSITE(dsplit, dsplit_samples)

}  // namespace
}  // namespace mantissa
