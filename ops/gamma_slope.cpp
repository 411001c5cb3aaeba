// The derivative of a gamma distribution sample with respect to the shape parameter (core/gamma_slope.h).
#include "core/gamma_slope.h"

#include "core/kernel.h"
#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/registry.h"

namespace mantissa {
MANTISSA_KERNEL(gamma_slope, const View& y, const View& alpha, const View& x)

namespace {

struct GammaSlopeOp {
  static constexpr auto name = "gamma_slope";
  static constexpr const char* args[] = {"alpha", "x"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = false;

  Spec infer(const Tensor& alpha, const Tensor& x) const {
    check(alpha.is_floating() && alpha.dtype() == x.dtype(), "needs two tensors of one floating dtype");
    check_sizes(x, "draw", alpha.sizes());
    return like(alpha);
  }
  void run(const View& y, const View& alpha, const View& x) const { kernels::gamma_slope(y.device, y, alpha, x); }
  static void samples(Samples& s) {
    s({s.uniform({3, 5}, 0.2, 4), s.uniform({3, 5}, 0.2, 6)}, GammaSlopeOp{});
    s({s.uniform({7}, 20, 60), s.uniform({7}, 20, 60)}, GammaSlopeOp{});
    s({s.uniform({0, 4}, 1, 2), s.uniform({0, 4}, 1, 2)}, GammaSlopeOp{});
    s.error({s.uniform({2}, 1, 2), s.integers({2}, 1, 2)}, GammaSlopeOp{}, "needs two tensors of one floating dtype");
  }
};

}  // namespace

MANTISSA_OP(GammaSlopeOp)

Tensor gamma_slope(const Tensor& alpha, const Tensor& x) {
  const std::vector<Tensor> both = broadcast_tensors({alpha, x});
  return apply(GammaSlopeOp{}, both[0], both[1]);
}

}  // namespace mantissa
