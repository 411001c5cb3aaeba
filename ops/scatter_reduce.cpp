// scatter_reduce: sums, means, products and extremes of the elements that an index maps to one place, with or without
// the element already there. Gradients follow PyTorch: equal extremes share it, and products never divide by 0. Next:
// core/cpu/scatter_reduce.cpp; sums are scatter_add (ops/index.cpp).
#include <limits>

#include "core/ops.h"
#include "ops/apply.h"
#include "ops/at_least_1d.h"
#include "ops/index.h"
#include "ops/number_like.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(scatter_reduce, const View& y, const View& index, const View& source, int kind)

namespace {

enum class Kind { prod, amax, amin };

View last_dim(View v, int dim) {  // a 0-d tensor is a vector of one element
  v = at_least_1d(v);
  const std::int64_t size = v.sizes[dim], stride = v.strides[dim];
  v.sizes.erase(dim), v.strides.erase(dim);
  v.sizes.push_back(size), v.strides.push_back(stride);
  return v;
}

// Includes x's own elements; to exclude them the caller fills in the identity element.
template <Kind kind> struct ScatterReduce {
  static constexpr auto name = kind == Kind::prod   ? "scatter_prod"
                               : kind == Kind::amax ? "scatter_amax"
                                                    : "scatter_amin";
  static constexpr const char* args[] = {"x", "index", "source"};
  static constexpr auto autocast = CastPolicy::promote;
  static constexpr bool twice_differentiable = kind == Kind::prod;  // the extremes' gradient is piecewise constant
  int dim = 0;

  Spec infer(const Tensor& x, const Tensor& index, const Tensor& source) const {
    check_scatter(x, wrap_dim(dim, x.dim()), index, source);
    return like(x);
  }
  void run(const View& y, const View& x, const View& index, const View& source) const {
    const int d = wrap_dim(dim, x.dim());
    const View from = last_dim(x, d);
    const Tensor wide = Tensor::allocate(from.sizes, compute_dtype(x.dtype), x.device);
    kernels::copy(y.device, wide.view(), from);
    kernels::scatter_reduce(y.device, wide.view(), last_dim(index, d), last_dim(source, d), static_cast<int>(kind));
    kernels::copy(y.device, last_dim(y, d), wide.view());
  }
  static constexpr auto vjp() {
    return joint([](const ScatterReduce& op, Needs, Grad g, In<0> x, In<1> index, In<2> source, Out<0> y) {
      return kind == Kind::prod ? op.product_gradients(g, x, index, source)
                                : op.extreme_gradients(g, x, index, source, y);
    });
  }
  static constexpr std::uint64_t constants = 0b010;

  std::array<Tensor, 3> extreme_gradients(const Tensor& g, const Tensor& x, const Tensor& index, const Tensor& source,
                                          const Tensor& y) const {
    const Tensor from_x = cast(eq(x, y), g.dtype()), from_source = cast(eq(source, gather(y, dim, index)), g.dtype());
    const Tensor share = g / scatter_add(from_x, dim, index, from_source);
    return {from_x * share, Tensor(), from_source * gather(share, dim, index)};
  }
  // The product of all other elements: the total divided by the element if nothing is 0; the product of the nonzero
  // ones if the element is the only 0; otherwise 0.
  std::array<Tensor, 3> product_gradients(const Tensor& g, const Tensor& x, const Tensor& index,
                                          const Tensor& source) const {
    const Tensor x_zero = eq(x, Tensor(0.0)), source_zero = eq(source, Tensor(0.0));
    const Tensor one = number_like(x, 1), safe_x = where(x_zero, one, x), safe_source = where(source_zero, one, source);
    const Tensor rest = reduced(safe_x, index, safe_source);
    const Tensor zeros_met = scatter_add(cast(x_zero, f32), dim, index, cast(source_zero, f32));
    const auto others = [](const Tensor& all, const Tensor& met, const Tensor& is_zero, const Tensor& safe) {
      return where(eq(met, Tensor(0.0)), all / safe,
                   where(logical_and(eq(met, Tensor(1.0)), is_zero), all, Tensor(0.0)));
    };
    return {g * others(rest, zeros_met, x_zero, safe_x), Tensor(),
            gather(g, dim, index) *
                others(gather(rest, dim, index), gather(zeros_met, dim, index), source_zero, safe_source)};
  }
  Tensor reduced(const Tensor& x, const Tensor& index, const Tensor& source) const;
  static void samples(Samples& s) {
    const ScatterReduce op{1}, first{0};
    if (kind != Kind::prod) s({s.distinct({3, 4}), s.integers({3, 6}, 0, 4), s.distinct({3, 6}) + 0.03125}, op);
    s({s.uniform({3, 4}, 0.5, 1.5), s.integers({2, 3}, 0, 3), s.uniform({2, 3}, 0.5, 1.5)}, first);
    s({s.randn({4}), s.integers({0}, 0, 3), s.randn({0})}, ScatterReduce{-1});
    s({s.randn({}), s.integers({}, 0, 1), s.randn({})}, first);
    s({s.integers({4}, -3, 4), s.integers({9}, 0, 4), s.integers({9}, -3, 4)}, first);
    s.error({s.randn({3}), s.integers({2}, 5, 6), s.randn({2})}, first,
            "index 5 is out of range for a dimension of size 3");
    s.error({s.randn({3}), s.integers({2, 1}, 0, 1), s.randn({2})}, first, "the index has 2 dimensions, x 1");
    s.error({s.randn({3}), s.integers({2}, 0, 1), s.randn({3})}, first, "the source has sizes [3], the index [2]");
    s.error({s.randn({3}), s.integers({2}, 0, 1), s.integers({2}, 0, 1)}, first, "the source is i64 and x f64");
  }
};
template <Kind kind> Tensor reduced_by(int dim, const Tensor& x, const Tensor& index, const Tensor& source) {
  return apply(ScatterReduce<kind>{dim}, x, index, source);
}
template <Kind kind>
Tensor ScatterReduce<kind>::reduced(const Tensor& x, const Tensor& index, const Tensor& source) const {
  return reduced_by<kind>(dim, x, index, source);
}

MANTISSA_OP(ScatterReduce<Kind::prod>)
MANTISSA_OP(ScatterReduce<Kind::amax>)
MANTISSA_OP(ScatterReduce<Kind::amin>)

double identity_of(std::string_view reduce, Dtype dtype) {
  if (reduce == "prod") return 1;
  if (reduce == "sum" || reduce == "mean") return 0;
  const double most = is_floating(dtype) ? std::numeric_limits<double>::infinity()
                      : dtype == i64     ? 0x1.fffffffffffffp62
                      : dtype == i32     ? INT32_MAX
                                         : 255;
  if (reduce == "amin") return most;
  return is_floating(dtype) ? -most : dtype == i64 ? -0x1p63 : dtype == i32 ? INT32_MIN : 0;
}

}  // namespace

namespace {
// The part of the source that corresponds to the index, which may be smaller.
Tensor beside(const Tensor& index, Tensor source) {
  if (source.dim() != index.dim()) return source;  // the operator will throw
  for (int d = 0; d < index.dim(); ++d) {
    if (source.size(d) > index.size(d)) source = slice(source, d, 0, index.size(d));
  }
  return source;
}
}  // namespace

Tensor scatter_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& whole_source,
                      std::string_view reduce, bool include_self) {
  const bool known = reduce == "sum" || reduce == "mean" || reduce == "prod" || reduce == "amax" || reduce == "amin";
  check(known, "scatter_reduce: reduce must be sum, mean, prod, amax or amin, got \"", std::string(reduce), "\"");
  const Tensor source = beside(index, whole_source);
  const Tensor start = include_self ? x : scatter(x, dim, index, identity_of(reduce, x.dtype()));
  if (reduce == "prod") return reduced_by<Kind::prod>(dim, start, index, source);
  if (reduce == "amax") return reduced_by<Kind::amax>(dim, start, index, source);
  if (reduce == "amin") return reduced_by<Kind::amin>(dim, start, index, source);
  const Tensor total = scatter_add(start, dim, index, source);
  if (reduce == "sum") return total;
  const TensorOptions o{.dtype = x.is_floating() ? compute_dtype(x.dtype()) : i64, .device = x.device()};
  const Tensor self = ones(x.sizes(), o), counted = include_self ? self : scatter(self, dim, index, 0.0);
  const Tensor count = clamp_min(scatter_add(counted, dim, index, ones(index.sizes(), o)), 1);
  return x.is_floating() ? cast(total / count, x.dtype()) : floor_divide(total, count);
}

namespace {
void scatter_reduce_samples(Samples& s) {
  const auto call = [](const char* reduce, bool include_self) {
    return [=](const Tensors& x) { return scatter_reduce(x[0], 1, x[1], x[2], reduce, include_self); };
  };
  for (const char* reduce : {"sum", "mean", "prod", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      s.call({s.uniform({2, 4}, 0.5, 2), s.integers({2, 5}, 0, 3), s.uniform({2, 5}, 0.5, 2)},
             call(reduce, include_self));
    }
  }
  s.call({s.integers({2, 3}, 0, 9), s.integers({2, 4}, 0, 3), s.integers({2, 4}, 0, 9)}, call("mean", true));
  for (const char* reduce : {"sum", "mean", "amax"}) {
    s.call({s.randn({2, 3}), s.integers({1, 2}, 0, 3), s.randn({2, 4})}, call(reduce, false));
  }
  s.error_call({s.randn({2, 3}), s.integers({2, 3}, 0, 3), s.randn({2, 3})}, call("max", true),
               "reduce must be sum, mean, prod, amax or amin");
  s.error_call({s.randn({2, 3}), s.integers({2, 3}, 3, 4), s.randn({2, 3})}, call("prod", true),
               "index 3 is out of range");
}
MANTISSA_COMPOSITE(scatter_reduce, scatter_reduce_samples)
}  // namespace
}  // namespace mantissa
