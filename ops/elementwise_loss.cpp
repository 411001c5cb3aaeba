// Losses of one element and its target: absolute and squared error, binary cross entropy, Kullback-Leibler divergence,
// likelihoods. Composed of other operators.
#include <cmath>
#include <limits>

#include "ops/check_values.h"
#include "ops/function.h"
#include "ops/loss.h"

namespace mantissa {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// target * log(x) + (1 - target) * log(1 - x). As in PyTorch, logarithms are clamped at -100, and the denominator of
// the derivative, (target - x) / (x * (1 - x)), at 1e-12: a saturated and wrong x still learns.
struct LogLikelihood {
  static constexpr auto name = "log_likelihood";
  static Tensor stopped_log(const Tensor& x) { return clamp(log(x), -100, infinity); }
  Tensor forward(Saved& saved, const Tensor& x, const Tensor& target) const {
    saved.save({x, target});
    return target * stopped_log(x) + (1.0 - target) * stopped_log(1.0 - x);
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor &x = saved[0], &target = saved[1];
    std::vector<Tensor> gradients(2);
    gradients[0] = g * (target - x) / clamp(x * (1.0 - x), 1e-12, infinity);
    if (saved.needs_input_grad(1)) gradients[1] = g * (stopped_log(x) - stopped_log(1.0 - x));
    return gradients;
  }
};
// x * log(x), with 0 at x = 0.
Tensor x_log_x(const Tensor& x) { return x * log(where(eq(x, Tensor(0.0)), Tensor(1.0), x)); }
Tensor weighted(const Tensor& each, const Tensor& weight) { return weight.defined() ? each * weight : each; }

struct L1Loss {
  static constexpr auto name = "l1_loss";
  static constexpr const char* args[] = {"x", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  Reduction reduction = Reduction::mean;
  static Tensor compose(const L1Loss& op, const Tensor& x, const Tensor& target) {
    check_floating_pair(x, target);
    check_broadcasts_to(x, target);
    return reduced_loss(abs(x - target), op.reduction);
  }
  static void samples(Samples& s) { distance_samples(s, L1Loss{}); }
};

struct BinaryCrossEntropy {
  static constexpr auto name = "binary_cross_entropy";
  static constexpr const char* args[] = {"x", "target", "weight"};
  static constexpr auto autocast = CastPolicy::banned;
  static constexpr bool differentiable = true;
  Reduction reduction = Reduction::mean;
  static Tensor compose(const BinaryCrossEntropy& op, const Tensor& x, const Tensor& target, const Tensor& weight) {
    check_floating_pair(x, target);
    check_same_shape(x, target);
    check_all(name, logical_and(ge(x, Tensor(0.0)), le(x, Tensor(1.0))),
              "x holds values outside [0, 1]; use binary_cross_entropy_with_logits for logits");
    return reduced_loss(-weighted(apply_function(LogLikelihood{}, x, target), weight), op.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
      composed(s, {s.uniform({4, 3}, 0.1, 0.9), s.uniform({4, 3}, 0, 1), Tensor()}, BinaryCrossEntropy{r});
    }
    composed(s, {s.uniform({4, 3}, 0.1, 0.9), s.uniform({4, 3}, 0, 1), s.uniform({3}, 0.5, 2)}, BinaryCrossEntropy{});
    composed_error(s, {s.uniform({3}, 1.5, 2), s.uniform({3}, 0, 1), Tensor()}, BinaryCrossEntropy{},
                   "values outside [0, 1]");
    composed_error(s, {s.uniform({3}, 0, 1), s.uniform({2}, 0, 1), Tensor()}, BinaryCrossEntropy{},
                   "target has shape [2], expected [3]");
  }
};

struct BceWithLogits {
  static constexpr auto name = "binary_cross_entropy_with_logits";
  static constexpr const char* args[] = {"x", "target", "weight", "pos_weight"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  Reduction reduction = Reduction::mean;
  static Tensor compose(const BceWithLogits& op, const Tensor& x, const Tensor& target, const Tensor& weight,
                        const Tensor& pos_weight) {
    check_floating_pair(x, target);
    check_same_shape(x, target);
    const Tensor log_p = logsigmoid(x);
    const Tensor factor = pos_weight.defined() ? (pos_weight - 1.0) * target + 1.0 : Tensor();
    return reduced_loss(weighted((1.0 - target) * x - weighted(log_p, factor), weight), op.reduction);
  }
  static void samples(Samples& s) {
    const Tensor none;
    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
      composed(s, {s.randn({4, 3}), s.uniform({4, 3}, 0, 1), none, none}, BceWithLogits{r});
    }
    composed(s, {s.randn({4, 3}), s.uniform({4, 3}, 0, 1), s.uniform({4, 1}, 0.5, 2), s.uniform({3}, 0.5, 2)},
             BceWithLogits{});
    composed(s, {s.uniform({4}, -1e4, 1e4), s.uniform({4}, 0, 1), none, none}, BceWithLogits{}).extreme = true;
    composed_error(s, {s.randn({3}), s.randn({2}), none, none}, BceWithLogits{}, "target has shape [2], expected [3]");
  }
};

struct KlDiv {
  static constexpr auto name = "kl_div";
  static constexpr const char* args[] = {"x", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  KlReduction reduction = KlReduction::mean;
  bool log_target = false;
  static Tensor compose(const KlDiv& op, const Tensor& x, const Tensor& target) {
    check_floating_pair(x, target);
    const Tensor each = op.log_target ? exp(target) * (target - x) : x_log_x(target) - target * x;
    if (op.reduction == KlReduction::none) return each;
    if (op.reduction == KlReduction::mean) return mean(each);
    if (op.reduction == KlReduction::sum) return sum(each);
    check(x.dim() > 0, "batchmean needs a batch, got a scalar");
    return sum(each) / static_cast<double>(x.size(0));
  }
  static void samples(Samples& s) {
    for (const KlReduction r : {KlReduction::none, KlReduction::mean, KlReduction::sum, KlReduction::batchmean}) {
      composed(s, {s.randn({4, 3}), s.uniform({4, 3}, 0.1, 1)}, KlDiv{r});
    }
    composed(s, {s.randn({4, 3}), s.randn({4, 3})}, KlDiv{KlReduction::mean, true});
    composed_error(s, {s.randn({3}), s.integers({3}, 0, 2)}, KlDiv{}, "needs floating dtypes");
  }
};

struct PoissonNll {
  static constexpr auto name = "poisson_nll_loss";
  static constexpr const char* args[] = {"x", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  PoissonNllOptions options;
  static Tensor compose(const PoissonNll& op, const Tensor& x, const Tensor& target) {
    check_floating_pair(x, target);
    Tensor each = op.options.log_input ? exp(x) - target * x : x - target * log(x + op.options.eps);
    if (op.options.full) {  // Stirling's approximation of log(target!), for target > 1
      const Tensor large = gt(target, Tensor(1.0)), t = where(large, target, Tensor(1.0));
      each = each + where(large, t * log(t) - t + 0.5 * log(6.283185307179586 * t), Tensor(0.0));
    }
    return reduced_loss(each, op.options.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
      composed(s, {s.randn({4, 3}), s.uniform({4, 3}, 0, 4)}, PoissonNll{{.reduction = r}});
    }
    composed(s, {s.uniform({4, 3}, 0.5, 2), s.uniform({4, 3}, 0, 4)}, PoissonNll{{.log_input = false, .full = true}});
    composed_error(s, {s.randn({3}), s.randn({2})}, PoissonNll{}, "do not broadcast");
  }
};

struct GaussianNll {
  static constexpr auto name = "gaussian_nll_loss";
  static constexpr const char* args[] = {"x", "target", "var"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  GaussianNllOptions options;
  static Tensor compose(const GaussianNll& op, const Tensor& x, const Tensor& target, const Tensor& var) {
    check_floating_pair(x, target);
    Tensor v = var;  // of x's shape, or one value per row, with or without the dimension of size 1
    if (!(var.sizes() == x.sizes()) && var.dim() + 1 == x.dim()) v = unsqueeze(var, -1);
    check(broadcast(v.sizes(), x.sizes()) == x.sizes(), "var of shape ", var.sizes(), " does not fit x of shape ",
          x.sizes());
    check_all(name, logical_not(lt(v, Tensor(0.0))), "var holds negative values");
    v = where(lt(v, Tensor(op.options.eps)), v + (op.options.eps - v).detach(), v);  // the gradient ignores the clamp
    Tensor each = 0.5 * (log(v) + square(x - target) / v);
    if (op.options.full) each = each + 0.9189385332046727;  // log(2 pi) / 2
    return reduced_loss(each, op.options.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
      composed(s, {s.randn({4, 3}), s.randn({4, 3}), s.uniform({4, 3}, 0.5, 2)}, GaussianNll{{.reduction = r}});
    }
    composed(s, {s.randn({4, 3}), s.randn({4, 3}), s.uniform({4}, 0.5, 2)}, GaussianNll{{.full = true}});
    composed(s, {s.randn({4, 3}), s.randn({4, 3}), s.uniform({4, 1}, 0.5, 2)}, GaussianNll{});
    composed_error(s, {s.randn({3}), s.randn({3}), s.uniform({3}, -2, -1)}, GaussianNll{}, "var holds negative values");
    composed_error(s, {s.randn({3}), s.randn({3}), s.uniform({2}, 1, 2)}, GaussianNll{}, "broadcast");
  }
};

}  // namespace

MANTISSA_OP(L1Loss)
MANTISSA_OP(BinaryCrossEntropy)
MANTISSA_OP(BceWithLogits)
MANTISSA_OP(KlDiv)
MANTISSA_OP(PoissonNll)
MANTISSA_OP(GaussianNll)

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return apply_composed(L1Loss{reduction}, x, target);
}
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight, Reduction reduction) {
  return apply_composed(BinaryCrossEntropy{reduction}, x, target, weight);
}
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                        Reduction reduction, const Tensor& pos_weight) {
  return apply_composed(BceWithLogits{reduction}, x, target, weight, pos_weight);
}
Tensor kl_div(const Tensor& x, const Tensor& target, KlReduction reduction, bool log_target) {
  return apply_composed(KlDiv{reduction, log_target}, x, target);
}
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, PoissonNllOptions options) {
  return apply_composed(PoissonNll{options}, x, target);
}
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var, GaussianNllOptions options) {
  return apply_composed(GaussianNll{options}, x, target, var);
}

}  // namespace mantissa
