// Distances between points, and norms, composed of matmul, broadcasting and norm: cdist, pdist, dist, normalize,
// renorm. Distance losses: ops/distance_loss.cpp.
#include <cmath>

#include "core/context.h"
#include "core/ops_special.h"
#include "core/pointwise.h"
#include "ops/compose.h"
#include "ops/floating.h"
#include "ops/reduce.h"

namespace mantissa {

MANTISSA_KERNEL(reduce_norm, const View& y, const View& x)
MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)

namespace {

// Squared distances of many points as |a|^2 + |b|^2 - 2 a.b, as PyTorch does beyond 25 points.
struct Cdist {
  static constexpr auto name = "cdist";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  double p = 2;
  static Tensor compose(const Cdist& op, const Tensor& a, const Tensor& b) {
    check(a.is_floating() && b.is_floating(), "needs floating dtypes; convert with to(f32)");
    check(a.dim() >= 2 && b.dim() >= 2, "a and b need at least 2 dimensions, [..., points, size]");
    check(a.size(-1) == b.size(-1), "points have ", a.size(-1), " and ", b.size(-1), " coordinates");
    check(op.p >= 0, "p must be at least 0, got ", op.p);
    constexpr std::int64_t few = 25;
    if (op.p != 2 || (a.size(-2) <= few && b.size(-2) <= few))
      return norm(unsqueeze(a, -2) - unsqueeze(b, -3), op.p, {-1});
    // one matrix product: [-2a, |a|^2, 1] @ [b, 1, |b|^2]^T
    const Tensor a2 = sum(square(a), {-1}, true), b2 = sum(square(b), {-1}, true);
    const Tensor squared = matmul(cat({a * -2.0, a2, ones_like(a2)}, -1), transpose(cat({b, ones_like(b2), b2}, -1)));
    // In backward a distance of 0 gets the gradient 0.
    if (!context().grad_enabled || !squared.requires_grad()) return sqrt(clamp_min(squared, 0));
    const Tensor none = le(squared, Tensor(0.0));
    return where(none, Tensor(0.0), sqrt(where(none, Tensor(1.0), squared)));
  }
  static void samples(Samples& s) {
    for (const double p : {2.0, 1.0, 3.0}) composed(s, {s.randn({2, 4, 3}), s.randn({5, 3})}, Cdist{p});
    composed(s, {s.distinct({3, 2}), s.distinct({4, 2}) + 9.0}, Cdist{HUGE_VAL});
    composed(s, {s.randn({30, 2}), s.randn({2, 2})}, Cdist{}).differentiable = true;
    composed_error(s, {s.randn({3, 2}), s.randn({4, 3})}, Cdist{}, "points have 2 and 3 coordinates");
    composed_error(s, {s.randn({3}), s.randn({4, 3})}, Cdist{}, "at least 2 dimensions");
    composed_error(s, {s.randn({3, 2}), s.randn({4, 2})}, Cdist{-1}, "p must be at least 0, got -1");
  }
};

struct Dist {
  static constexpr auto name = "dist";
  static constexpr const char* args[] = {"a", "b"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  double p = 2;
  static Tensor compose(const Dist& op, const Tensor& a, const Tensor& b) { return norm(a - b, op.p); }
  static void samples(Samples& s) {
    for (const double p : {2.0, 1.0, 3.0}) composed(s, {s.randn({3, 4}), s.randn({4})}, Dist{p});
    composed_error(s, {s.randn({2}), s.randn({3})}, Dist{}, "do not broadcast");
    composed_error(s, {s.integers({2}, 0, 3), s.integers({2}, 0, 3)}, Dist{}, "needs a floating dtype");
  }
};

Tensor divided_by_norm(const Tensor& x, double p, const Dims& dims, double eps) {
  const Tensor wide = is_half(x.dtype()) ? cast(x, f32) : x;
  return wide / clamp_min(norm(wide, p, dims, true), eps);
}
// normalize of f16 and bf16 with p = 2 on the CPU when no gradient is recorded: read directly and rounded once.
struct NormalizeHalves : Over {
  static constexpr auto name = "normalize_half";
  static constexpr const char* args[] = {"x"};
  double eps = 1e-12;
  Spec infer(const Tensor& x) const { return kept(x.sizes()), like_layout(x); }
  void run(const View& y, const View& x) const {
    const Tensor size = Tensor::allocate(kept(x.sizes), f32);
    kernels::reduce_norm(cpu, size.view(), x);
    const auto least = static_cast<float>(eps);
    float* const p = size.data<float>();
    for (std::int64_t i = 0; i < size.numel(); ++i) p[i] = p[i] < least ? least : p[i];
    const View by = size.view();
    const pointwise::Div div;
    const View* operands[] = {&x, &by};
    const void* formula = &div;
    kernels::pointwise(cpu, pointwise::opcode<pointwise::Div>, formula, f32, y, std::span<const View* const>(operands));
  }
  static Tensor reference(const NormalizeHalves& op, const Tensor& x) { return divided_by_norm(x, 2, op.dims, op.eps); }
};

struct Normalize {
  static constexpr auto name = "normalize";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true, widens_itself = true;
  double p = 2;
  Dims dims{1};
  double eps = 1e-12;
  static Tensor compose(const Normalize& op, const Tensor& x) {
    if (is_half(x.dtype()) && x.device().is_cpu() && op.p == 2)
      return apply(NormalizeHalves{{op.dims, true}, op.eps}, x);
    return divided_by_norm(x, op.p, op.dims, op.eps);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 4})}, Normalize{});
    composed(s, {s.randn({2, 3, 2})}, Normalize{1, {0, 2}});
    composed(s, {zeros({2, 3}, {.dtype = f64})}, Normalize{}).extreme = true;
    composed_error(s, {s.randn({3})}, Normalize{}, "dim 1 is out of range for 1 dimensions");
    composed_error(s, {s.integers({3, 3}, 0, 3)}, Normalize{}, "needs a floating dtype");
  }
};

struct Renorm {
  static constexpr auto name = "renorm";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  double p = 2;
  int dim = 0;
  double maxnorm = 1;
  static Tensor compose(const Renorm& op, const Tensor& x) {
    check_floating(x);
    check(x.dim() >= 2, "needs at least 2 dimensions");
    check(op.p > 0, "p must be positive, got ", op.p);
    check(op.maxnorm >= 0, "maxnorm must not be negative, got ", op.maxnorm);
    Dims others;
    for (int d = 0; d < x.dim(); ++d) if (d != wrap_dim(op.dim, x.dim())) others.push_back(d);
    const Tensor size = norm(x, op.p, others, true);
    return x * where(gt(size, Tensor(op.maxnorm)), op.maxnorm / (size + 1e-7), ones_like(size));
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({3, 4})}, Renorm{2, 0, 1.5});
    composed(s, {s.randn({2, 3, 2})}, Renorm{1, -2, 0.5});
    composed_error(s, {s.randn({3})}, Renorm{}, "needs at least 2 dimensions");
    composed_error(s, {s.randn({3, 2})}, Renorm{0}, "p must be positive, got 0");
    composed_error(s, {s.randn({3, 2})}, Renorm{2, 0, -1}, "maxnorm must not be negative, got -1");
    composed_error(s, {s.randn({3, 2})}, Renorm{2, 2}, "dim 2 is out of range");
  }
};

}  // namespace

MANTISSA_OP(Cdist)
MANTISSA_OP(Dist)
MANTISSA_OP(Normalize)
MANTISSA_OP(Renorm)

Tensor cdist(const Tensor& a, const Tensor& b, double p) { return apply_composed(Cdist{p}, a, b); }
Tensor pdist(const Tensor& x, double p) {
  check(x.dim() == 2, "pdist: x must be [points, size], got ", x);
  const std::int64_t n = x.size(0);
  const Tensor pairs = triu_indices(n, n, 1, {.device = x.device()});
  return norm(index_select(x, 0, select(pairs, 0, 0)) - index_select(x, 0, select(pairs, 0, 1)), p, {1});
}
Tensor dist(const Tensor& a, const Tensor& b, double p) { return apply_composed(Dist{p}, a, b); }
Tensor normalize(const Tensor& x, double p, const Dims& dims, double eps) {
  return apply_composed(Normalize{p, dims, eps}, x);
}
Tensor renorm(const Tensor& x, double p, int dim, double maxnorm) { return apply_composed(Renorm{p, dim, maxnorm}, x); }

namespace {

void pdist_samples(Samples& s) {
  s.call({s.randn({4, 3})}, [](const Tensors& x) { return pdist(x[0]); });
  s.call({s.randn({3, 2})}, [](const Tensors& x) { return pdist(x[0], 1); });
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return pdist(x[0]); }, "x must be [points, size]");
}
MANTISSA_COMPOSITE(pdist, pdist_samples)

}  // namespace
}  // namespace mantissa
