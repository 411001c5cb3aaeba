// Cumulative sums, products, logsumexp and extremes, and prod. Gradients of products never divide, so zeros need no
// special case: they multiply the products of the elements before and after, and solve a linear recurrence
//   y[i] = b[i] + a[i] * y[i - 1],
// whose own gradient is such a recurrence in the opposite direction.
#include <cmath>

#include "core/ops_special.h"
#include "ops/named.h"
#include "ops/number_like.h"
#include "ops/reduce.h"
#include "ops/with_dtype.h"

namespace mantissa {

MANTISSA_KERNEL(cumsum, const View& y, const View& x, int dim, bool reverse)
MANTISSA_KERNEL(cumprod, const View& y, const View& x, int dim, bool reverse)
MANTISSA_KERNEL(reduce_prod, const View& y, const View& x)
MANTISSA_KERNEL(logcumsumexp, const View& y, const View& x, int dim)
MANTISSA_KERNEL(cumulative_extreme, const View& values, const View& indices, const View& x, int dim, bool largest)
MANTISSA_KERNEL(linear_recurrence, const View& y, const View& a, const View& b, int dim, bool reverse)

namespace {

struct Scan {
  int dim = 0;
  bool reverse = false;

  Spec infer_like(const Tensor& x) const {
    wrap_dim(dim, x.dim());
    return like(x, x.is_floating() ? x.dtype() : i64);
  }
  // x shifted by one in the direction of the scan (or `against` it), with `filling` at the end that becomes free.
  Tensor shifted(const Tensor& x, double filling, bool against) const {
    if (x.dim() == 0) return number_like(x, filling);
    const int d = wrap_dim(dim, x.dim());
    const std::int64_t n = x.sizes()[d];
    if (n == 0) return x;
    Dims edge = x.sizes();
    edge[d] = 1;
    const Tensor fill = full(edge, filling, {.dtype = x.dtype(), .device = x.device()});
    if (reverse == against) return cat({fill, slice(x, d, 0, n - 1)}, d);
    return cat({slice(x, d, 1, n), fill}, d);
  }
};

// Operators that are their own gradient call it through these functions, defined below them.
Tensor running_sum(const Tensor& x, const Scan& scan);
Tensor recurrence(const Tensor& a, const Tensor& b, const Scan& scan);

struct CumSum : Scan {
  static constexpr auto name = "cumsum";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_default;
  Spec infer(const Tensor& x) const { return infer_like(x); }
  void run(const View& y, const View& x) const { kernels::cumsum(y.device, y, x, wrap_dim(dim, x.dim()), reverse); }
  static constexpr auto vjp() {
    return rules([](const CumSum& op, Grad g) { return running_sum(g, {op.dim, !op.reverse}); });
  }
  void onnx(OnnxCall& c) const {
    if (c.x(0).dim() == 0) return c.result(c.in(0, c.y().dtype()));
    const OnnxId x = c.in(0, c.y().dtype()), axis = c.constant(scalar(dim, {.dtype = i64}));
    c.result(c.node("CumSum", {x, axis}, {{"reverse", reverse}}));
  }
  static void samples(Samples& s);
};

struct LinearRecurrence : Scan {
  static constexpr auto name = "linear_recurrence";
  static constexpr const char* args[] = {"a", "b"};
  Spec infer(const Tensor& a, const Tensor& b) const {
    check(a.sizes() == b.sizes() && a.dtype() == b.dtype() && a.is_floating(),
          "needs two floating tensors of one shape and dtype");
    return infer_like(a);
  }
  void run(const View& y, const View& a, const View& b) const {
    kernels::linear_recurrence(y.device, y, a, b, wrap_dim(dim, a.dim()), reverse);
  }
  static constexpr auto vjp() {
    return joint([](const LinearRecurrence& op, Needs, Grad g, In<0> a, Out<0> y) {
      const Tensor db = recurrence(op.shifted(a, 0, true), g, {op.dim, !op.reverse});
      return std::array<Tensor, 2>{db * op.shifted(y, 0, false), db};
    });
  }
  static void samples(Samples& s);
};

struct CumProd : Scan {
  static constexpr auto name = "cumprod";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_default;
  Spec infer(const Tensor& x) const { return infer_like(x); }
  void run(const View& y, const View& x) const { kernels::cumprod(y.device, y, x, wrap_dim(dim, x.dim()), reverse); }
  static constexpr auto vjp() {
    return rules([](const CumProd& op, Grad g, In<0> x, Out<0> y) {
      const Tensor later = recurrence(op.shifted(x, 0, true), g, {op.dim, !op.reverse});
      return later * op.shifted(y, 1, false);
    });
  }
  static void samples(Samples& s);
};

// The gradient at x[i] is the sum over later j of g[j] * exp(x[i] - y[j]). As exp(x[i] - y[i]) times a
// recurrence whose factors exp(y[i] - y[i + 1]) are at most 1, it cannot overflow.
struct LogCumSumExp : Scan {
  static constexpr auto name = "logcumsumexp";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  Spec infer(const Tensor& x) const {
    check_floating(x);
    return infer_like(x);
  }
  void run(const View& y, const View& x) const { kernels::logcumsumexp(y.device, y, x, wrap_dim(dim, x.dim())); }
  static constexpr auto vjp() {
    return rules([](const LogCumSumExp& op, Grad g, In<0> x, Out<0> y) {
      const auto exp_of_difference = [](const Tensor& a, const Tensor& b) {  // treats equal infinities as difference 0
        return exp(where(eq(a, b), Tensor(0.0), a - b));
      };
      const Tensor factor = exp_of_difference(y, op.shifted(y, HUGE_VAL, true));
      return recurrence(factor, g, {op.dim, true}) * exp_of_difference(x, y);
    });
  }
  static void samples(Samples& s);
};

template <bool largest> struct CumulativeExtreme : Scan {
  static constexpr auto name = largest ? "cummax" : "cummin";
  static constexpr const char* args[] = {"x"};
  std::array<Spec, 2> infer(const Tensor& x) const {
    wrap_dim(dim, x.dim());
    return {like(x), like(x, i64)};
  }
  void run(const std::array<View, 2>& y, const View& x) const {
    kernels::cumulative_extreme(x.device, y[0], y[1], x, wrap_dim(dim, x.dim()), largest);
  }
  static constexpr auto vjp() {
    return rules([](const CumulativeExtreme& op, Grad g, Out<1> index, Shape<0> x) {
      return scatter_add(zeros(x.sizes, {.dtype = g.dtype(), .device = g.device()}), op.dim, index, g);
    });
  }
  static void samples(Samples& s);
};

Tensor running_sum(const Tensor& x, const Scan& scan) { return apply(CumSum{scan}, x); }
Tensor recurrence(const Tensor& a, const Tensor& b, const Scan& scan) { return apply(LinearRecurrence{scan}, a, b); }

// The product of all other elements along the last dimension.
Tensor products_of_others(const Tensor& x) {
  const Tensor before = Scan{-1, false}.shifted(apply(CumProd{{-1, false}}, x), 1, false);
  return before * Scan{-1, true}.shifted(apply(CumProd{{-1, true}}, x), 1, false);
}

struct ProdOp : Over {
  static constexpr auto name = "prod";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_default;

  Spec infer(const Tensor& x) const { return {result(x.sizes()), x.is_floating() ? x.dtype() : i64, x.device()}; }
  void run(const View& y, const View& x) const { kernels::reduce_prod(x.device, aligned(y, x.sizes), x); }
  static constexpr auto vjp() {
    return rules([](const ProdOp& op, Grad g, In<0> x) { return op.broadcastable(g, x.sizes()) * op.others(x); });
  }
  void onnx(OnnxCall& c) const { c.result(reduced(c, "ReduceProd")); }
  // Moves the reduced dimensions to the end and merges them, then moves the result back.
  Tensor others(const Tensor& x) const {
    if (x.dim() == 0) return ones_like(x);
    Dims order, inverse = Dims::filled(x.dim(), 0), shape;
    bool gone[Dims::max_rank] = {};
    for (int d = 0; d < x.dim(); ++d) gone[d] = dims.empty();
    for (const std::int64_t d : dims) gone[wrap_dim(d, x.dim())] = true;
    for (const bool last : {false, true}) {
      for (int d = 0; d < x.dim(); ++d) if (gone[d] == last) order.push_back(d);
    }
    for (int i = 0; i < x.dim(); ++i) inverse[static_cast<int>(order[i])] = i;
    const Tensor moved = permute(x, order);
    for (int d = 0; d < x.dim(); ++d) if (!gone[d]) shape.push_back(x.sizes()[d]);
    shape.push_back(count(x.sizes()));
    return permute(reshape(products_of_others(reshape(moved, shape)), moved.sizes()), inverse);
  }
  static void samples(Samples& s) {
    reduction_samples(s, ProdOp{}, [&](const Dims& d) { return s.uniform(d, 0.9, 1.1); });
    s({s.randn({})}, ProdOp{});
    s({s.randn({0, 3})}, ProdOp{{{0}}});
    s({cast(s.integers({4, 5}, -1, 3), f64)}, ProdOp{{{1}}});  // zeros
    s({s.integers({2, 6}, -2, 3)}, ProdOp{{{1}}});
  }
};

// --- samples ---
template <class Op> void scan_samples(Samples& s) {
  for (const bool reverse : {false, true}) {
    s({s.randn({4, 3})}, Op{{0, reverse}});
    s({s.randn({2, 5, 3})}, Op{{1, reverse}});
  }
  s({s.randn({3, 40})}, Op{{-1}});
  s({s.randn({})}, Op{{0}});
  s({s.randn({0, 3})}, Op{{0}});
  s({s.integers({2, 6}, -2, 3)}, Op{{1}});
  s.error({s.randn({2, 3})}, Op{{2}}, "dim 2 is out of range for 2 dimensions");
}
void CumSum::samples(Samples& s) { scan_samples<CumSum>(s); }
void CumProd::samples(Samples& s) {
  scan_samples<CumProd>(s);
  s({cast(s.integers({3, 6}, -1, 2), f64)}, CumProd{{1}});  // zeros
}
void LogCumSumExp::samples(Samples& s) {
  s({s.randn({4, 3})}, LogCumSumExp{{0}});
  s({s.randn({2, 5, 3})}, LogCumSumExp{{1}});
  s({s.randn({3, 40})}, LogCumSumExp{{-1}});
  s({s.randn({})}, LogCumSumExp{{0}});
  s({s.randn({0, 3})}, LogCumSumExp{{0}});
  s.extreme({s.uniform({2, 9}, -1e4, 1e4)}, LogCumSumExp{{1}});
  s.error({s.randn({2, 3})}, LogCumSumExp{{2}}, "dim 2 is out of range for 2 dimensions");
  s.error({s.integers({3}, 0, 4)}, LogCumSumExp{{0}}, "needs a floating dtype");
}
template <bool largest> void CumulativeExtreme<largest>::samples(Samples& s) {
  s({s.distinct({4, 3})}, CumulativeExtreme{{0}});
  s({s.distinct({2, 5, 3})}, CumulativeExtreme{{-2}});
  s({s.integers({3, 9}, 0, 4)}, CumulativeExtreme{{1}});
  s({s.randn({})}, CumulativeExtreme{{0}});
  s({s.randn({0, 3})}, CumulativeExtreme{{0}});
  s.error({s.randn({2, 3})}, CumulativeExtreme{{2}}, "dim 2 is out of range for 2 dimensions");
}
void diff_samples(Samples& s) {
  s.call({s.randn({3, 5})}, [](const Tensors& x) { return diff(x[0]); });
  s.call({s.randn({4, 2})}, [](const Tensors& x) { return diff(x[0], 2, 0); });
  s.call({s.integers({6}, 0, 9)}, [](const Tensors& x) { return diff(x[0], 7); });
  s.error_call(
      {s.randn({})}, [](const Tensors& x) { return diff(x[0]); }, "at least 1 dimension");
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return diff(x[0], -1); }, "n = -1 is negative");
}
MANTISSA_COMPOSITE(diff, diff_samples)
void LinearRecurrence::samples(Samples& s) {
  for (const bool reverse : {false, true}) s({s.randn({3, 6}), s.randn({3, 6})}, LinearRecurrence{{1, reverse}});
  s({s.randn({4, 2}), s.randn({4, 2})}, LinearRecurrence{{0}});
  s.error({s.randn({2}), s.randn({3})}, LinearRecurrence{}, "needs two floating tensors of one shape");
}

}  // namespace

MANTISSA_OP(CumSum)
MANTISSA_OP(CumProd)
MANTISSA_OP(LogCumSumExp)
MANTISSA_OP(CumulativeExtreme<true>)
MANTISSA_OP(CumulativeExtreme<false>)
MANTISSA_OP(LinearRecurrence)
MANTISSA_OP(ProdOp)

Tensor cumsum(const Tensor& x, int dim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [dim](const Tensor& t) { return apply(CumSum{{dim}}, t); });
}
Tensor cumprod(const Tensor& x, int dim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [dim](const Tensor& t) { return apply(CumProd{{dim}}, t); });
}
Tensor linear_recurrence(const Tensor& a, const Tensor& b, int dim) {
  const Tensors same = named("linear_recurrence", a, [&] { return broadcast_tensors(std::array{a, b}); });
  return recurrence(same[0], same[1], {dim, false});
}
Tensor logcumsumexp(const Tensor& x, int dim) { return apply(LogCumSumExp{{dim}}, x); }
ValuesIndices cummax(const Tensor& x, int dim) {
  auto y = apply(CumulativeExtreme<true>{{dim}}, x);
  return {std::move(y[0]), std::move(y[1])};
}
ValuesIndices cummin(const Tensor& x, int dim) {
  auto y = apply(CumulativeExtreme<false>{{dim}}, x);
  return {std::move(y[0]), std::move(y[1])};
}
Tensor diff(const Tensor& x, int n, int dim) {
  check(x.dim() > 0, "diff: needs at least 1 dimension");
  check(n >= 0, "diff: n = ", n, " is negative");
  Tensor y = x;
  for (int i = 0; i < n && named_size("diff", y, dim) > 0; ++i)
    y = slice(y, dim, 1) - slice(y, dim, 0, y.size(dim) - 1);
  return y;
}
Tensor prod(const Tensor& x, const Dims& dims, bool keepdim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [&](const Tensor& t) { return apply(ProdOp{{dims, keepdim}}, t); });
}

}  // namespace mantissa
