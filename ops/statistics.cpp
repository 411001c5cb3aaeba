// Reductions composed of others: std, norm, nansum, nanmean, logsumexp, any, all, count_nonzero, and pairs of results.
#include <array>
#include <cmath>

#include "core/ops_special.h"
#include "ops/compose.h"
#include "ops/reduce.h"
#include "ops/with_dtype.h"

namespace mantissa {

MANTISSA_KERNEL(reduce_norm, const View& y, const View& x)
MANTISSA_KERNEL(reduce_nansum, const View& y, const View& x)
MANTISSA_KERNEL(reduce_truth, const View& y, const View& x, bool all)
MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace {

// The square root with gradient 0 at 0 (where it would be infinite), as in PyTorch's std and norm.
Tensor root(const Tensor& x) {
  const Tensor zero = eq(x, Tensor(0.0));
  return where(zero, Tensor(0.0), sqrt(where(zero, Tensor(1.0), x)));
}

struct StdOp : Over {
  static constexpr auto name = "std";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  int correction = 1;
  static Tensor compose(const StdOp& op, const Tensor& x) { return root(var(x, op.dims, op.keepdim, op.correction)); }
  static void samples(Samples& s);
};

// The norm for p = 2, in one pass that reads f16 and bf16 directly: result 1 is the unrounded norm for these. Other
// norms are composed of operators.
struct EuclideanNorm : Over {
  static constexpr auto name = "norm";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_default;
  static constexpr bool reads_half = true;

  std::array<Spec, 2> infer(const Tensor& x) const {
    check_floating(x);
    const Dims sizes = result(x.sizes());
    return {like(x, sizes), {is_half(x.dtype()) ? sizes : Dims{0}, f32, x.device()}};
  }
  void run(const std::array<View, 2>& y, const View& x) const {
    const bool rounds = is_half(y[0].dtype);
    kernels::reduce_norm(x.device, aligned(rounds ? y[1] : y[0], x.sizes), x);
    if (rounds) kernels::copy(x.device, y[0], y[1]);
  }
  static constexpr auto vjp() {
    return rules([](const EuclideanNorm& op, Grad g, In<0> x, Out<0> y, Out<1> wide) {
      Tensor norm = is_half(y.dtype()) ? static_cast<const Tensor&>(wide) : y;
      if (context().grad_enabled) norm = root(sum(square(cast(x, norm.dtype())), op.dims, op.keepdim));
      const Tensor zero = eq(norm, Tensor(0.0));
      return x * op.broadcastable(where(zero, Tensor(0.0), g / where(zero, Tensor(1.0), norm)), x.sizes());
    });
  }
  void onnx(OnnxCall& c) const {
    const Dtype wide = compute_dtype(c.x(0).dtype());
    const OnnxId y = c.reduce("ReduceL2", c.in(0, wide), c.x(0).dim() == 0 ? Dims{} : dims, keepdim);
    c.result(c.y().dtype() == wide ? y : c.cast(y, c.y().dtype()));
  }
};

struct Norm : Over {
  static constexpr auto name = "norm";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_default;
  static constexpr bool differentiable = true;
  double p = 2;

  static Tensor compose(const Norm& op, const Tensor& x) {
    check_floating(x);
    check(!std::isnan(op.p), "p is not a number");
    if (op.p == 2) return root(sum(square(x), op.dims, op.keepdim));
    if (op.p == 0) {  // with gradient 0: `never` is always false
      const Tensor never = lt(x, x);
      return sum(where(never, x, cast(ne(x, Tensor(0.0)), x.dtype())), op.dims, op.keepdim);
    }
    if (op.p == 1) return sum(abs(x), op.dims, op.keepdim);
    if (std::isinf(op.p)) return op.p > 0 ? amax(abs(x), op.dims, op.keepdim) : amin(abs(x), op.dims, op.keepdim);
    const Tensor total = sum(power(abs(x), op.p), op.dims, op.keepdim);
    return power(total, 1 / op.p);
  }
  // x^p for x >= 0, with gradient 0 at 0.
  static Tensor power(const Tensor& x, double p) {
    const Tensor zero = eq(x, Tensor(0.0));
    return where(zero, Tensor(std::pow(0.0, p)), pow(where(zero, Tensor(1.0), x), p));
  }
  static void samples(Samples& s);
};

// nansum when no gradient is recorded, in one pass.
struct NanSum : Over {
  static constexpr auto name = "nansum";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_default;
  Spec infer(const Tensor& x) const { return like(x, result(x.sizes())); }
  void run(const View& y, const View& x) const { kernels::reduce_nansum(x.device, aligned(y, x.sizes), x); }
  static Tensor reference(const NanSum& op, const Tensor& x) {
    return sum(nan_to_num(x, 0, INFINITY, -INFINITY), op.dims, op.keepdim);
  }
};

struct NanMean : Over {
  static constexpr auto name = "nanmean";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  static Tensor compose(const NanMean& op, const Tensor& x) {
    check_floating(x);
    const Tensor count = sum(eq(x, x), op.dims, op.keepdim);
    return nansum(x, op.dims, op.keepdim) / cast(count, x.dtype());
  }
  static void samples(Samples& s);
};

struct LogSumExp : Over {
  static constexpr auto name = "logsumexp";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;

  static Tensor compose(const LogSumExp& op, const Tensor& x) {
    check_floating(x);
    if (op.count(x.sizes()) == 0) return log(sum(exp(x), op.dims, op.keepdim));
    const Tensor largest = amax(x.detach(), op.dims, true);
    const Tensor shift = where(isfinite(largest), largest, Tensor(0.0));  // inf - inf would be NaN
    const Tensor y = log(sum(exp(x - shift), op.dims, true)) + shift;
    return op.keepdim ? y : reshape(y, op.result(x.sizes()));
  }
  static void samples(Samples& s);
};

// --- samples ---
template <class Op, class Input> void composed_reduction_samples(Samples& s, const Op& op, Input&& input) {
  auto with = [&](const Dims& sizes, const Dims& dims, bool keepdim) {
    Op o = op;
    o.dims = dims;
    o.keepdim = keepdim;
    composed(s, {input(sizes)}, o);
  };
  with({3, 5}, {}, false);
  with({3, 5}, {0}, false);
  with({2, 3, 4}, {0, -1}, true);
  with({2, 70, 3}, {1}, false);
  Op bad = op;
  bad.dims = {2};
  composed_error(s, {input({2, 3})}, bad, "dim 2 is out of range for 2 dimensions");
  composed_error(s, {s.integers({3}, 0, 5)}, op, "needs a floating dtype");
}
void StdOp::samples(Samples& s) {
  for (const int correction : {0, 1}) {
    StdOp op;
    op.correction = correction;
    composed_reduction_samples(s, op, [&](const Dims& d) { return s.randn(d); });
  }
}
void Norm::samples(Samples& s) {
  for (const double p : {2.0, 1.0, 0.0, 3.0, 0.5, -1.0}) {
    Norm op;
    op.p = p;
    composed_reduction_samples(s, op, [&](const Dims& d) { return s.randn(d); });
  }
  for (const double p : {HUGE_VAL, -HUGE_VAL}) {
    Norm op;
    op.p = p;
    composed_reduction_samples(s, op, [&](const Dims& d) { return s.distinct(d) + 40.0; });
  }
}
void NanMean::samples(Samples& s) {
  composed_reduction_samples(s, NanMean{}, [&](const Dims& d) { return s.randn(d); });
}
void LogSumExp::samples(Samples& s) {
  composed_reduction_samples(s, LogSumExp{}, [&](const Dims& d) { return s.randn(d); });
  composed(s, {s.uniform({3, 5}, -1e4, 1e4)}, LogSumExp{{{1}}}).extreme = true;
}

void nansum_samples(Samples& s) {
  const auto rows = [](const Tensors& x) { return nansum(x[0], {1}); };
  s.call({s.randn({3, 4})}, rows);
  s.call({tensor({{1, NAN, 2}, {NAN, NAN, NAN}}, {.dtype = f64})}, rows).extreme = true;
  s.call({s.integers({3, 4}, 0, 9)}, [](const Tensors& x) { return nansum(x[0]); });
  s.error_call({s.randn({3})}, rows, "dim 1 is out of range");
}

void any_all_samples(Samples& s, Tensor (*f)(const Tensor&, const Dims&, bool)) {
  const auto with = [&](const Tensor& x, const Dims& dims, bool keepdim) {
    s.call({x}, [=](const Tensors& in) { return f(in[0], dims, keepdim); });
  };
  with(s.booleans({3, 5}), {}, false);
  with(s.booleans({3, 5}), {1}, true);
  with(s.integers({2, 3, 4}, 0, 2), {0, 2}, false);
  with(s.randn({4}), {}, false);
  with(s.booleans({0, 3}), {0}, false);
  s.error_call(
      {s.booleans({2})}, [f](const Tensors& x) { return f(x[0], {1}, false); }, "dim 1 is out of range");
}
void any_samples(Samples& s) {
  any_all_samples(s, [](const Tensor& x, const Dims& d, bool k) { return any(x, d, k); });
}
void all_samples(Samples& s) { any_all_samples(s, &all); }
void count_nonzero_samples(Samples& s) {
  any_all_samples(s, [](const Tensor& x, const Dims& d, bool) { return count_nonzero(x, d); });
}

}  // namespace

MANTISSA_OP(StdOp)
MANTISSA_OP(Norm)
MANTISSA_OP(NanMean)
MANTISSA_OP(LogSumExp)
MANTISSA_COMPOSITE(nansum, nansum_samples)
MANTISSA_COMPOSITE(any, any_samples, .differentiable = false)
MANTISSA_COMPOSITE(all, all_samples, .differentiable = false)
MANTISSA_COMPOSITE(count_nonzero, count_nonzero_samples, .differentiable = false)

Tensor std(const Tensor& x, const Dims& dims, bool keepdim, int correction) {
  return apply_composed(StdOp{{dims, keepdim}, correction}, x);
}
Tensor norm(const Tensor& x, double p, const Dims& dims, bool keepdim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [&](const Tensor& t) {
    if (p == 2) return apply(EuclideanNorm{{dims, keepdim}}, t)[0];
    return apply_composed(Norm{{dims, keepdim}, p}, t);
  });
}
Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim) {
  return apply_composed(LogSumExp{{dims, keepdim}}, x);
}
Tensor nansum(const Tensor& x, const Dims& dims, bool keepdim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [&](const Tensor& t) {
    const NanSum op{{dims, keepdim}};
    return t.is_floating() ? apply(op, t) : sum(t, dims, keepdim);
  });
}
Tensor nanmean(const Tensor& x, const Dims& dims, bool keepdim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [&](const Tensor& t) { return apply_composed(NanMean{{dims, keepdim}}, t); });
}
Tensor max(const Tensor& x) { return amax(x); }
Tensor min(const Tensor& x) { return amin(x); }
Tensor argmax(const Tensor& x) { return argmax(flatten(x), 0); }
Tensor argmin(const Tensor& x) { return argmin(flatten(x), 0); }
namespace {

Tensor count_nonzero_of(const Tensor& x, const Dims& dims, bool keepdim) {
  return sum(x.dtype() == boolean ? x.detach() : ne(x, Tensor(0)), dims, keepdim);
}

// any and all: on the CPU of bool and u8, on a GPU of any dtype.
template <bool every> struct Truth : Over {
  static constexpr auto name = every ? "all" : "any";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = false;
  Spec infer(const Tensor& x) const { return {result(x.sizes()), boolean, x.device()}; }
  void run(const View& y, const View& x) const { kernels::reduce_truth(x.device, aligned(y, x.sizes), x, every); }
  static Tensor reference(const Truth& op, const Tensor& x) {
    return every ? eq(sum(logical_not(x), op.dims, op.keepdim), Tensor(0))
                 : ne(count_nonzero_of(x, op.dims, op.keepdim), Tensor(0));
  }
};
template <bool every> Tensor truth(const Tensor& x, const Truth<every>& op) {
  const bool reads = !x.device().is_cpu() || x.dtype() == boolean || x.dtype() == u8;
  return apply(op, reads ? x.detach() : ne(x, Tensor(0)));
}

}  // namespace

Tensor any(const Tensor& x, const Dims& dims, bool keepdim) { return truth<false>(x, {{dims, keepdim}}); }
Tensor all(const Tensor& x, const Dims& dims, bool keepdim) { return truth<true>(x, {{dims, keepdim}}); }
Tensor count_nonzero(const Tensor& x, const Dims& dims) { return count_nonzero_of(x, dims, false); }
MinMax aminmax(const Tensor& x, std::optional<int> dim, bool keepdim) {
  const Dims dims = dim ? Dims{*dim} : Dims{};
  return {amin(x, dims, keepdim), amax(x, dims, keepdim)};
}
StdMean std_mean(const Tensor& x, const Dims& dims, bool keepdim, int correction) {
  return {mantissa::std(x, dims, keepdim, correction), mean(x, dims, keepdim)};
}
VarMean var_mean(const Tensor& x, const Dims& dims, bool keepdim, int correction) {
  return {var(x, dims, keepdim, correction), mean(x, dims, keepdim)};
}

namespace {

void aminmax_samples(Samples& s) {
  const auto rows = [](const Tensors& x) {
    const MinMax y = aminmax(x[0], -1, true);
    return Tensors{y.min, y.max};
  };
  s.call({s.distinct({3, 4})}, rows);
  s.call({s.integers({3, 4}, 0, 9)}, [](const Tensors& x) { return Tensors{aminmax(x[0]).min, aminmax(x[0]).max}; });
  s.error_call({s.randn({2, 0})}, rows, "an empty set has no minimum");
}
void std_mean_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const StdMean y = std_mean(x[0], {-1}, true, 0);
    return Tensors{y.std, y.mean};
  };
  s.call({s.randn({3, 4})}, f);
  s.error_call({s.integers({3, 4}, 0, 9)}, f, "needs a floating dtype");
}
void var_mean_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const VarMean y = var_mean(x[0], {-1});
    return Tensors{y.var, y.mean};
  };
  s.call({s.randn({3, 4})}, f);
  s.error_call({s.integers({3, 4}, 0, 9)}, f, "needs a floating dtype");
}
MANTISSA_COMPOSITE(aminmax, aminmax_samples)
MANTISSA_COMPOSITE(std_mean, std_mean_samples)
MANTISSA_COMPOSITE(var_mean, var_mean_samples)

}  // namespace
}  // namespace mantissa
