// Sorting and related operators: argsort and those built on it (sort, topk), searchsorted, nonzero, bincount. Sorting
// is always stable, and NaN counts as the largest value. Kernels: core/cpu/sort.cpp.
#include <algorithm>

#include "core/ops.h"
#include "core/recording.h"
#include "ops/apply.h"
#include "ops/at_least_1d.h"
#include "ops/order.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(argsort, const View& index, const View& x, int dim, bool descending)
MANTISSA_KERNEL(argsort_place, const View& index, const View& x, int dim, std::int64_t place, bool nan_wins)
MANTISSA_KERNEL(searchsorted, const View& index, const View& sorted, const View& values, bool right)
MANTISSA_KERNEL(nonzero, const View& index, const View& x)

namespace {

struct Argsort {
  static constexpr auto name = "argsort";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = false;
  int dim = -1;
  bool descending = false;
  std::int64_t count = -1;  // only the first `count`; -1 means all

  Spec infer(const Tensor& x) const {
    const int d = wrap_dim(dim, x.dim());
    Dims sizes = x.sizes();
    const std::int64_t size = sizes.empty() ? 1 : sizes[d];
    check(count >= -1 && count <= size, "k = ", count, " is not between 0 and the size ", size, " of dimension ", d);
    if (count >= 0 && !sizes.empty()) sizes[d] = count;
    return {sizes, i64, x.device()};
  }
  void run(const View& index, const View& x) const {
    kernels::argsort(x.device, at_least_1d(index), at_least_1d(x), wrap_dim(dim, x.dim()), descending);
  }
  void onnx(OnnxCall& c) const {
    const std::int64_t k = count < 0 ? c.x(0).size(dim) : count;
    c.result(c.nodes("TopK", {c.in(0), c.ints({k})}, {c.axis(dim), {"largest", descending}}, 2)[1]);
  }
  static void samples(Samples& s) {
    s({s.distinct({3, 7})}, Argsort{});
    s({s.distinct({5, 2, 3})}, Argsort{0, true});
    s({s.integers({40}, 0, 4)}, Argsort{});  // ties keep their order
    s({s.distinct({2, 30})}, Argsort{1, true, 3});
    s({s.distinct({4})}, Argsort{0, false, 0});
    s({s.randn({})}, Argsort{});
    s({s.randn({0, 2})}, Argsort{0});
    s.error({s.randn({2, 3})}, Argsort{2}, "dim 2 is out of range for 2 dimensions");
    s.error({s.randn({2, 3})}, Argsort{1, true, 4}, "k = 4 is not between 0 and the size 3 of dimension 1");
  }
};

// The element of one rank in argsort's order, size 1 along dim; with nan_wins the first NaN of a line that has one.
// Found by selection without a full sort; only the CPU has a kernel for it.
struct ArgsortPlace {
  static constexpr auto name = "argsort_place";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = false;
  int dim = -1;
  std::int64_t place = 0;
  bool nan_wins = false;

  Spec infer(const Tensor& x) const {
    check(x.dim() > 0 && x.device().is_cpu(), "needs a dimension, and the CPU");
    const int d = wrap_dim(dim, x.dim());
    Dims sizes = x.sizes();
    check(place >= 0 && place < sizes[d], "place ", place, " is not in dimension ", d, " of ", x);
    sizes[d] = 1;
    return {sizes, i64, x.device()};
  }
  void run(const View& index, const View& x) const {
    kernels::argsort_place(x.device, index, x, wrap_dim(dim, x.dim()), place, nan_wins);
  }
  static Tensor reference(const ArgsortPlace& op, const Tensor& x) {
    const Tensor index = slice(argsort(x, op.dim), op.dim, op.place, op.place + 1);
    if (!op.nan_wins || !x.is_floating()) return index;
    const Tensor nan = isnan(x);
    return where(any(nan, {op.dim}, true), argmax(cast(nan, i64), op.dim, true), index);
  }
};

struct Searchsorted {
  static constexpr auto name = "searchsorted";
  static constexpr const char* args[] = {"sorted", "values"};
  static constexpr bool differentiable = false;
  bool right = false;

  Spec infer(const Tensor& sorted, const Tensor& values) const {
    check(sorted.dim() > 0, "the sorted sequence must have at least 1 dimension");
    if (sorted.dim() > 1) {
      Dims expected = sorted.sizes();
      if (values.dim() == sorted.dim()) expected.back() = values.sizes().back();
      check(values.sizes() == expected, "one sequence for every line needs values of sizes ", expected,
            " in all but the last dimension");
    }
    return {values.sizes(), i64, values.device()};
  }
  void run(const View& index, const View& sorted, const View& values) const {
    kernels::searchsorted(index.device, index, sorted, values, right);
  }
  static Tensor reference(const Searchsorted& op, const Tensor& sorted, const Tensor& values) {
    const Tensor each = unsqueeze(values, -1), line = sorted.dim() > 1 ? unsqueeze(sorted, -2) : sorted;
    return sum(op.right ? le(line, each) : lt(line, each), {-1});
  }
  static void samples(Samples& s) {
    for (bool right : {false, true}) {
      s({arange(0, 8, 1, {.dtype = f64}), s.integers({3, 4}, -1, 9)}, Searchsorted{right});
      s({tensor({{1, 3, 5}, {2, 2, 6}}, {.dtype = f64}), s.integers({2, 4}, 0, 7)}, Searchsorted{right});
    }
    s({arange(3), s.integers({}, 0, 3)}, Searchsorted{});
    s.error({s.randn({2, 3}), s.randn({3, 4})}, Searchsorted{}, "one sequence for every line");
    s.error({s.randn({}), s.randn({3})}, Searchsorted{}, "at least 1 dimension");
  }
};

struct Nonzero {
  static constexpr auto name = "nonzero";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = false;
  std::int64_t count;  // number of nonzero elements: the caller has counted them

  Spec infer(const Tensor& x) const { return {{count, x.dim()}, i64, x.device()}; }
  void run(const View& index, const View& x) const { kernels::nonzero(x.device, index, x); }
  void onnx(OnnxCall& c) const {
    if (c.x(0).dim() == 0) c.refuse("of a scalar");
    c.result(c.node("Transpose", {c.node("NonZero", {c.in(0)})}, {{"perm", std::vector<std::int64_t>{1, 0}}}));
  }
  static void samples(Samples& s) {
    const auto call = [](const Tensors& x) { return mantissa::nonzero(x[0]); };
    s.call({s.booleans({3, 4})}, call);
    s.call({s.integers({2, 3, 2}, 0, 2)}, call);
    s.call({s.integers({}, 1, 2)}, call);
    s.call({s.randn({0, 3})}, call);
  }
};

MANTISSA_OP(Argsort)
MANTISSA_OP(Searchsorted)
MANTISSA_OP(Nonzero)

}  // namespace

Tensor argsort(const Tensor& x, int dim, bool descending) { return apply(Argsort{dim, descending}, x); }
Tensor argsort_place(const Tensor& x, int dim, std::int64_t place, bool nan_wins) {
  const ArgsortPlace op{dim, place, nan_wins};
  return x.device().is_cpu() ? apply(op, x) : ArgsortPlace::reference(op, x);
}
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  return apply(Searchsorted{right}, sorted, values);
}
Tensor nonzero(const Tensor& x) {
  check_may_read("nonzero", x, "the values say how long the result is");
  const std::int64_t count = x.numel() == 0 ? 0 : count_nonzero(x).item<std::int64_t>();
  return apply(Nonzero{count}, x);
}
ValuesIndices sort(const Tensor& x, int dim, bool descending) {
  const Tensor order = argsort(x.detach(), dim, descending);
  return {gather(x, dim, order), order};
}
ValuesIndices topk(const Tensor& x, std::int64_t k, int dim, bool largest) {
  check(k >= 0, "topk: k = ", k, " is negative");
  try {
    const int d = wrap_dim(dim, x.dim());
    // On the CPU the maximum alone is found with SIMD. For ties, or NaN, it is the first one, either way.
    const bool one =
        k == 1 && largest && x.device().is_cpu() && x.dtype() != boolean && x.dim() > 0 && x.size(d) > 0;
    const Tensor order = one ? argmax(x.detach(), d, true) : apply(Argsort{dim, largest, k}, x.detach());
    return {gather(x, dim, order), order};
  } catch (Error& e) {
    e.add_outer_context("topk");
    throw;
  }
}
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right) {
  check(boundaries.dim() == 1, "bucketize: boundaries must have 1 dimension, got ", boundaries);
  return searchsorted(boundaries, x, right);
}

namespace {

void sort_samples(Samples& s) {
  const auto call = [](int dim, bool descending) {
    return [=](const Tensors& x) { return sort(x[0], dim, descending); };
  };
  s.call({s.distinct({4, 5})}, call(-1, false));
  s.call({s.distinct({4, 5})}, call(0, true));
  s.call({s.randn({})}, call(0, true));
  s.error_call({s.randn({3})}, call(1, false), "dim 1 is out of range");
}
void topk_samples(Samples& s) {
  const auto call = [](std::int64_t k, int dim, bool largest) {
    return [=](const Tensors& x) { return topk(x[0], k, dim, largest); };
  };
  s.call({s.distinct({4, 25})}, call(3, -1, true));
  s.call({s.distinct({6, 3})}, call(5, 0, false));
  s.error_call({s.randn({3})}, call(4, 0, true), "k = 4 is not between 0 and the size 3");
  s.error_call({s.randn({3})}, call(-1, 0, true), "k = -1 is negative");
}
void bucketize_samples(Samples& s) {
  s.call({s.randn({2, 3}), arange(-1, 2, 0.5, {.dtype = f64})}, [](const Tensors& x) { return bucketize(x[0], x[1]); });
  s.call({s.integers({6}, 0, 5), arange(4)}, [](const Tensors& x) { return bucketize(x[0], x[1], true); });
  s.error_call(
      {s.randn({2}), s.randn({2, 2})}, [](const Tensors& x) { return bucketize(x[0], x[1]); },
      "boundaries must have 1 dimension");
}
MANTISSA_COMPOSITE(sort, sort_samples)
MANTISSA_COMPOSITE(topk, topk_samples)
MANTISSA_COMPOSITE(bucketize, bucketize_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
