// Reading and writing by index: scatter, and gather, scatter and scatter_add generalized to whole rows, masks and lists
// of index tensors, which give the gradients too. Read first: ops/index.cpp.
#include <algorithm>

#include "core/ops.h"
#include "core/recording.h"
#include "ops/at_least_1d.h"
#include "ops/compose.h"
#include "ops/index.h"
#include "ops/named.h"
#include "ops/number_like.h"

namespace mantissa {

// For indices that no kernel reads unchanged: scatter, gather and scatter_add check their own.
MANTISSA_KERNEL(check_indices, const View& index, std::int64_t size)
MANTISSA_KERNEL(scatter, const View& y, int dim, const View& index, const View& source)
MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace {

struct Scatter {
  static constexpr auto name = "scatter";
  static constexpr const char* args[] = {"x", "index", "source"};
  static constexpr auto autocast = CastPolicy::promote;
  int dim;

  Spec infer(const Tensor& x, const Tensor& index, const Tensor& source) const {
    check_scatter(x, wrap_dim(dim, x.dim()), index, source);
    return like(x);
  }
  void run(const View& y, const View& x, const View& index, const View& source) const {
    const int d = wrap_dim(dim, x.dim());
    kernels::copy(y.device, y, x);
    kernels::scatter(y.device, at_least_1d(y), d, at_least_1d(index), at_least_1d(source));
  }
  static constexpr auto vjp() {
    return rules([](const Scatter& op, Grad g, In<1> index) { return mantissa::scatter(g, op.dim, index, 0.0); },
                 no_gradient, [](const Scatter& op, Grad g, In<1> index) { return gather(g, op.dim, index); });
  }
  void onnx(OnnxCall& c) const { c.result(c.node("ScatterElements", {c.in(0), c.in(1), c.in(2)}, {c.axis(dim)})); }
  static void samples(Samples& s) {
    s({s.randn({3, 4}), tensor({{1, 3}, {0, 2}, {3, 1}}), s.randn({3, 2})}, Scatter{1});
    s({s.randn({4, 3}), tensor({{3, 0, 1}, {1, 2, 0}}), s.randn({2, 3})}, Scatter{0});
    s({s.randn({4}), s.integers({0}, 0, 3), s.randn({0})}, Scatter{-1});
    s({s.randn({}), s.integers({}, 0, 1), s.randn({})}, Scatter{0});
    s.error({s.randn({3}), s.integers({2}, 5, 6), s.randn({2})}, Scatter{0},
            "index 5 is out of range for a dimension of size 3");
    s.error({s.randn({3}), s.integers({2, 1}, 0, 1), s.randn({2})}, Scatter{0}, "the index has 2 dimensions, x 1");
    s.error({s.randn({3}), s.integers({2}, 0, 1), s.randn({3})}, Scatter{0}, "the source has sizes [3], the index [2]");
    s.error({s.randn({3}), s.integers({2}, 0, 1), s.integers({2}, 0, 1)}, Scatter{0}, "the source is i64 and x f64");
    s.error({s.randn({3}), s.randn({2}), s.randn({2})}, Scatter{0}, "the index must be i64");
  }
};
MANTISSA_OP(Scatter)

// The part of `source` that an index with these `sizes` reads.
Tensor corner(Tensor source, const Dims& sizes) {
  if (source.dim() != sizes.rank()) return source;
  for (int d = 0; d < sizes.rank(); ++d) {
    if (source.sizes()[d] > sizes[d]) source = slice(source, d, 0, sizes[d]);
  }
  return source;
}

// A row index [n] along dim, expanded for gather and scatter: x's sizes with n at dim.
Tensor for_rows(const char* name, const Tensor& x, int dim, const Tensor& index) {
  const int d = named_dim(name, x, dim);
  check(index.dim() <= 1, name, ": the index must have 1 dimension, got ", index);
  Dims line = Dims::filled(x.dim(), 1), sizes = x.sizes();
  if (x.dim() > 0) {
    line[d] = index.numel();
    sizes[d] = index.numel();
  }
  return expand(reshape(index, line), sizes);
}
Tensor rows_like(const char* name, const Tensor& x, int dim, const Tensor& rows, const Tensor& source) {
  check(source.sizes() == rows.sizes(), name, ": the source has sizes ", source.sizes(), " instead of ", rows.sizes(),
        " for x ", x, " and dimension ", dim);
  return source;
}

// Index tensors over the first dimensions of x, combined into one over their product.
struct Places {
  Tensor index;     // i64, the common shape of the indices, in [0, product)
  Dims flat;        // x with the indexed dimensions merged
  Dims rest;        // sizes of the remaining dimensions
};
// Negative indices count from the end.
Tensor wrapped(const char* name, const Tensor& index, std::int64_t size) {
  check(index.dtype() == i64, name, ": indices must be i64 or bool, got ", index.dtype());
  const Tensor back = scalar(static_cast<double>(size), {.dtype = i64, .device = index.device()});
  return where(index < 0, index + back, index);
}
// Masks become the indices of their true elements.
Tensors without_masks(const char* name, const Tensor& x, std::span<const Tensor> indices) {
  Tensors list;
  for (const Tensor& t : indices) {
    if (t.dtype() != boolean) {
      list.push_back(t);
      continue;
    }
    for (int d = 0; d < t.dim(); ++d) {
      const int at = static_cast<int>(list.size()) + d;
      check(at < x.dim() && x.sizes()[at] == t.sizes()[d], name, ": the mask ", t, " does not fit x ", x,
            " at dimension ", at);
    }
    for (const Tensor& column : unbind(nonzero(t), 1)) list.push_back(column);
  }
  return list;
}
Places places(const char* name, const Tensor& x, std::span<const Tensor> indices) {
  const Tensors list = without_masks(name, x, indices);
  const int n = static_cast<int>(list.size());
  check(n > 0, name, ": needs at least one index");
  check(n <= x.dim(), name, ": ", n, " indices for x ", x);
  Places p;
  std::int64_t product = 1;
  for (int k = 0; k < n; ++k) {
    const std::int64_t size = x.sizes()[k];
    const Tensor at = wrapped(name, list[static_cast<std::size_t>(k)], size);
    if (n > 1) kernels::check_indices(at.device(), at.view(), size);  // the combined index would say less
    p.index = k == 0 ? at : p.index * scalar(static_cast<double>(size), {.dtype = i64, .device = at.device()}) + at;
    product *= size;
  }
  p.flat.push_back(product);
  for (int d = n; d < x.dim(); ++d) p.rest.push_back(x.sizes()[d]), p.flat.push_back(x.sizes()[d]);
  return p;
}
Dims joined(Dims a, const Dims& b) {
  for (std::int64_t s : b) a.push_back(s);
  return a;
}

}  // namespace

Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  return apply(Scatter{dim}, x, index, corner(source, index.sizes()));
}
Tensor scatter(const Tensor& x, int dim, const Tensor& index, double value) {
  return apply(Scatter{dim}, x, index, expand(number_like(x, value), index.sizes()));
}
Tensor index_select(const Tensor& x, int dim, const Tensor& index) {
  return gather(x, dim, for_rows("index_select", x, dim, index));
}
Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, double alpha) {
  const Tensor rows = for_rows("index_add", x, dim, index), added = rows_like("index_add", x, dim, rows, source);
  return scatter_add(x, dim, rows, alpha == 1 ? added : added * number_like(added, alpha));
}
Tensor index_copy(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  const Tensor rows = for_rows("index_copy", x, dim, index);
  const Composite in("index_copy", CastPolicy::promote, {&x, &source});
  return in.result(scatter(in[0], dim, rows, rows_like("index_copy", in[0], dim, rows, in[1])));
}
Tensor index_fill(const Tensor& x, int dim, const Tensor& index, double value) {
  const bool sized = dim >= -x.dim() && dim < x.dim() && index.dtype() == i64;  // else for_rows says what is wrong
  const Tensor rows = sized ? wrapped("index_fill", index, x.size(dim)) : index;
  return scatter(x, dim, for_rows("index_fill", x, dim, rows), value);
}
Tensor index(const Tensor& x, std::span<const Tensor> indices) {
  const Places p = places("index", x, indices);
  return reshape(index_select(reshape(x, p.flat), 0, flatten(p.index)), joined(p.index.sizes(), p.rest));
}
Tensor index_put(const Tensor& x, std::span<const Tensor> indices, const Tensor& values, bool accumulate) {
  const Places p = places("index_put", x, indices);
  const Composite in("index_put", CastPolicy::promote, {&x, &values});
  const Tensor flat = reshape(in[0], p.flat), at = flatten(p.index);
  const Tensor given = values.is_weak_scalar() ? cast(values.to(x.device()), in[0].dtype()) : in[1];
  Dims rows = p.flat;
  rows[0] = at.numel();
  const Tensor source = reshape(expand(given, joined(p.index.sizes(), p.rest)), rows);
  return in.result(reshape(accumulate ? index_add(flat, 0, at, source) : index_copy(flat, 0, at, source), x.sizes()));
}
Tensor take(const Tensor& x, const Tensor& index) {
  const Tensor at = wrapped("take", index, x.numel());
  return reshape(index_select(flatten(x), 0, flatten(at)), index.sizes());
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  check(mask.dtype() == boolean, "masked_fill: the mask must be bool, got ", mask.dtype());
  check(broadcast(x.sizes(), mask.sizes()) == x.sizes(), "masked_fill: the mask ", mask, " does not broadcast to x ",
        x);
  return where(mask, number_like(x, value), x);
}
Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check_may_read("masked_select", mask, "the mask says how long the result is");
  check(mask.dtype() == boolean, "masked_select: the mask must be bool, got ", mask.dtype());
  const Dims sizes = broadcast(x.sizes(), mask.sizes());
  const Tensor chosen = nonzero(flatten(expand(mask, sizes)));
  return index_select(flatten(expand(x, sizes)), 0, flatten(chosen));
}
Tensor one_hot(const Tensor& x, std::int64_t classes) {
  check(x.dtype() == i64, "one_hot: needs i64 classes, got ", x);
  check(classes >= -1, "one_hot: ", classes, " classes; give their number, or -1 to take the largest plus 1");
  check(classes > 0 || x.numel() > 0, "one_hot: an empty tensor does not tell the number of classes");
  if (classes == -1)
    check_may_read("one_hot", x, "the largest class says how wide the result is (give the number of classes)");
  if (classes == -1) classes = amax(x).item<std::int64_t>() + 1;
  Dims sizes = x.sizes();
  sizes.push_back(std::max<std::int64_t>(classes, 0));
  try {
    return scatter(zeros(sizes, {.dtype = i64, .device = x.device()}), -1, unsqueeze(x, -1), 1.0);
  } catch (Error& e) {
    e.add_outer_context(concat("one_hot with ", classes, " classes"));
    throw;
  }
}

namespace {

void index_select_samples(Samples& s) {
  const auto rows = [](const Tensors& x) { return index_select(x[0], 1, x[1]); };
  s.call({s.randn({3, 4}), s.integers({6}, 0, 4)}, rows);
  s.call({s.randn({2, 3, 2}), s.integers({0}, 0, 3)}, rows);
  s.call({s.randn({}), s.integers({1}, 0, 1)}, [](const Tensors& x) { return index_select(x[0], 0, x[1]); });
  s.error_call({s.randn({3, 4}), s.integers({2}, 4, 5)}, rows, "index 4 is out of range for a dimension of size 4");
  s.error_call({s.randn({3, 4}), s.integers({2, 2}, 0, 1)}, rows, "the index must have 1 dimension");
}
void index_add_samples(Samples& s) {
  const auto rows = [](const Tensors& x) { return index_add(x[0], 0, x[1], x[2], 2); };
  s.call({s.randn({3, 4}), s.integers({5}, 0, 3), s.randn({5, 4})}, rows);
  s.call({s.randn({3}), s.integers({2}, 0, 3), s.randn({2})}, rows);
  s.error_call({s.randn({3, 4}), s.integers({5}, 0, 3), s.randn({5, 3})}, rows,
               "the source has sizes [5, 3] instead of [5, 4]");
}
void index_copy_samples(Samples& s) {
  const auto rows = [](const Tensors& x) { return index_copy(x[0], 1, tensor({2, 0}).to(x[0].device()), x[1]); };
  s.call({s.randn({3, 4}), s.randn({3, 2})}, rows);
  s.error_call({s.randn({3, 4}), s.randn({3, 3})}, rows, "the source has sizes [3, 3] instead of [3, 2]");
}
void index_fill_samples(Samples& s) {
  const auto rows = [](const Tensors& x) { return index_fill(x[0], -1, x[1], 0.5); };
  s.call({s.randn({3, 4}), s.integers({2}, -4, 4)}, rows);
  s.error_call({s.randn({3, 4}), s.integers({2}, -5, -4)}, rows, "index -1 is out of range");
  s.error_call({s.randn({3, 4}), s.randn({2})}, rows, "must be i64");
}
void index_samples(Samples& s) {
  const auto pairs = [](const Tensors& x) { return index(x[0], {x[1], x[2]}); };
  const auto rows = [](const Tensors& x) { return index(x[0], {x[1]}); };
  s.call({s.randn({3, 4}), s.integers({5}, -3, 3), s.integers({2, 1}, -4, 4)}, pairs);
  s.call({s.randn({3, 2, 2}), s.integers({4}, 0, 3)}, rows);
  s.call({s.randn({3, 2, 2}), s.booleans({3, 2})}, rows);
  s.error_call({s.randn({3, 4}), s.integers({2}, 3, 4)}, rows, "index 3 is out of range for a dimension of size 3");
  s.error_call({s.randn({3, 4}), s.booleans({4})}, rows, "does not fit x");
  s.error_call({s.randn({3, 4}), s.randn({4})}, rows, "indices must be i64 or bool");
}
void index_put_samples(Samples& s) {
  const auto add_rows = [](const Tensors& x) { return index_put(x[0], {x[1]}, x[2], true); };
  s.call({s.randn({3, 2}), s.integers({5}, -3, 3), s.randn({2})}, add_rows);
  s.call({s.randn({3, 4}), s.randn({3})}, [](const Tensors& x) {
    return index_put(x[0], {tensor({0, 2, -1}).to(x[0].device()), tensor({1, 1, 0}).to(x[0].device())}, x[1]);
  });
  s.call({s.randn({3, 4}), s.booleans({3, 4})}, [](const Tensors& x) { return index_put(x[0], {x[1]}, Tensor(7.0)); });
  s.error_call({s.randn({3, 2}), s.integers({5}, 0, 3), s.randn({3})}, add_rows, "cannot become");
}
void take_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return take(x[0], x[1]); };
  s.call({s.randn({3, 4}), s.integers({2, 3}, -12, 12)}, f);
  s.error_call({s.randn({3, 4}), s.integers({2}, 12, 13)}, f, "index 12 is out of range for a dimension of size 12");
}
void masked_fill_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return masked_fill(x[0], x[1], -1.5); };
  s.call({s.randn({3, 4}), s.booleans({3, 4})}, f);
  s.call({s.randn({3, 4}), s.booleans({4})}, f);
  s.error_call({s.randn({3}), s.booleans({2, 3})}, f, "does not broadcast to x");
  s.error_call({s.randn({3}), s.randn({3})}, f, "the mask must be bool");
}
void masked_select_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return masked_select(x[0], x[1]); };
  s.call({s.randn({3, 4}), s.booleans({3, 4})}, f);
  s.call({s.randn({3, 1}), s.booleans({4})}, f);
  s.error_call({s.randn({3}), s.integers({3}, 0, 2)}, f, "the mask must be bool");
}
void one_hot_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return one_hot(x[0]); };
  s.call({s.integers({2, 3}, 0, 4)}, f);
  s.call({s.integers({0}, 0, 4)}, [](const Tensors& x) { return one_hot(x[0], 3); });
  s.error_call(
      {s.integers({2}, 3, 4)}, [](const Tensors& x) { return one_hot(x[0], 3); }, "index 3 is out of range");
  s.error_call({s.randn({2})}, f, "needs i64 classes");
  s.error_call({s.integers({0}, 0, 4)}, f, "does not tell the number of classes");
}
MANTISSA_COMPOSITE(index_select, index_select_samples)
MANTISSA_COMPOSITE(index_add, index_add_samples)
MANTISSA_COMPOSITE(index_copy, index_copy_samples, .autocast = CastPolicy::promote, .has_policy = true)
MANTISSA_COMPOSITE(index_fill, index_fill_samples)
MANTISSA_COMPOSITE(index, index_samples)
MANTISSA_COMPOSITE(index_put, index_put_samples, .autocast = CastPolicy::promote, .has_policy = true)
MANTISSA_COMPOSITE(take, take_samples)
MANTISSA_COMPOSITE(masked_fill, masked_fill_samples)
MANTISSA_COMPOSITE(masked_select, masked_select_samples)
MANTISSA_COMPOSITE(one_hot, one_hot_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
