// smooth_l1_loss and huber_loss: absolute error, made quadratic near 0. One pass for the losses, one for their
// reduction, and one for the gradient.
#include <cmath>

#include "ops/loss.h"
#include "ops/pointwise.h"

namespace mantissa {

MANTISSA_KERNEL(reduce_sum, const View& y, const View& x, double divisor)

namespace {

using pointwise::RoundedDistance;
using pointwise::RoundedDistanceGrad;

// The gradient of x: g times the derivative, whose slope may include a factor.
struct RoundedLossBackward : RoundedDistanceGrad {
  static constexpr auto name = "rounded_loss_backward";
  static constexpr const char* args[] = {"gradient", "x", "target"};

  Spec infer(const Tensor& g, const Tensor& x, const Tensor& target) const {
    return in_layout_of({x.sizes(), common_dtype(x, target), x.device()}, g, x, target);
  }
  void run(const View& dx, const View& g, const View& x, const View& target) const {
    const View* inputs[] = {&g, &x, &target};
    pointwise::run_formula<RoundedDistanceGrad>(*this, compute_dtype(dx.dtype), dx, inputs);
  }
  static Tensor reference(const RoundedLossBackward& op, const Tensor& g, const Tensor& x, const Tensor& target) {
    const Tensor d = x - target, steep = where(isnan(d), Tensor(NAN), op.slope * sign(d));
    if (op.edge == 0) return g * steep;
    return g * where(lt(abs(d), Tensor(op.edge)), op.slope / op.edge * d, steep);
  }
};

// Self defines up to which distance the loss is a parabola, and the slope of the line beyond.
template <class Self> struct RoundedLoss {
  static constexpr const char* args[] = {"x", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  Reduction reduction = Reduction::mean;

  Spec infer(const Tensor& x, const Tensor& target) const {
    check_floating_pair(x, target);
    check_broadcasts_to(x, target);
    self().check_attributes();
    const Spec each{x.sizes(), common_dtype(x, target), x.device()};
    return reduction == Reduction::none ? in_layout_of(each, x, target) : Spec{Dims{}, each.dtype, each.device};
  }
  void run(const View& y, const View& x, const View& target) const {
    RoundedDistance f;
    f.edge = self().edge(), f.slope = self().slope();
    const View* inputs[] = {&x, &target};
    const Dtype compute = compute_dtype(y.dtype);
    if (reduction == Reduction::none) return pointwise::run_formula(f, compute, y, inputs);
    const Tensor each = Tensor::allocate(x.sizes, compute, y.device, x.layout());
    pointwise::run_formula(f, compute, each.view(), inputs);
    View total = y;
    total.sizes = Dims::filled(x.dim(), 1);
    total.strides = contiguous_strides(total.sizes);
    kernels::reduce_sum(y.device, total, each.view(),
                        reduction == Reduction::mean ? static_cast<double>(each.numel()) : 1.0);
  }
  static constexpr auto vjp() {
    return joint([](const Self& op, Needs needs, Grad g, In<0> x, In<1> target) {
      RoundedLossBackward backward;
      backward.edge = op.edge();
      backward.slope = op.slope();
      // As part of the slope, because 1 / n could underflow in f16.
      if (op.reduction == Reduction::mean) backward.slope /= static_cast<double>(x.numel());
      const Tensor dx = apply(backward, g, x, target);
      return std::array<Tensor, 2>{dx, needs[1] ? -dx : Tensor()};
    });
  }
  static Tensor reference(const Self& op, const Tensor& x, const Tensor& target) {
    const Tensor d = abs(x - target), beyond = op.slope() * (d - 0.5 * op.edge());
    if (op.edge() == 0) return reduced_loss(beyond, op.reduction);
    const Tensor within = 0.5 * op.slope() / op.edge() * square(d);
    return reduced_loss(where(lt(d, Tensor(op.edge())), within, beyond), op.reduction);
  }
  static void samples(Samples& s) {
    Self op;
    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
      op.reduction = r;
      s({s.randn({4, 3}), s.randn({4, 3})}, op);
    }
    op.reduction = Reduction::mean;
    s({s.randn({4, 3}), s.randn({3})}, op);
    s({s.randn({}), s.randn({})}, op);
    s({s.randn({2, 3, 4, 5}), s.randn({2, 3, 4, 5})}, op);
    s.error({s.randn({2}), s.randn({3})}, op, "sizes [2] and [3] do not broadcast");
    s.error({s.randn({4, 1}), s.randn({4})}, op, "target has shape [4], which does not broadcast to x's [4, 1]");
    s.error({s.integers({2}, 0, 3), s.randn({2})}, op, "needs floating dtypes");
    Self::more_samples(s);
  }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

struct SmoothL1Loss : RoundedLoss<SmoothL1Loss> {
  static constexpr auto name = "smooth_l1_loss";
  double beta = 1;
  double edge() const { return beta; }
  double slope() const { return 1; }
  void check_attributes() const { check(beta >= 0, "beta is ", beta, ", expected at least 0"); }
  static void more_samples(Samples& s) {
    for (const double beta : {0.0, 0.3}) s({s.randn({4, 3}), s.randn({4, 3})}, SmoothL1Loss{{Reduction::mean}, beta});
    s.error({s.randn({2}), s.randn({2})}, SmoothL1Loss{{Reduction::mean}, -1}, "beta is -1");
  }
};
struct HuberLoss : RoundedLoss<HuberLoss> {
  static constexpr auto name = "huber_loss";
  double delta = 1;
  double edge() const { return delta; }
  double slope() const { return delta; }
  void check_attributes() const { check(delta > 0, "delta is ", delta, ", expected more than 0"); }
  static void more_samples(Samples& s) {
    s({s.randn({4, 3}), s.randn({4, 3})}, HuberLoss{{Reduction::mean}, 0.3});
    s.error({s.randn({2}), s.randn({2})}, HuberLoss{{Reduction::mean}, 0}, "delta is 0");
  }
};

}  // namespace

MANTISSA_OP(SmoothL1Loss)
MANTISSA_OP(HuberLoss)

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, double beta) {
  return apply(SmoothL1Loss{{reduction}, beta}, x, target);
}
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction, double delta) {
  return apply(HuberLoss{{reduction}, delta}, x, target);
}

}  // namespace mantissa
