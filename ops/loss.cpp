// Losses. cross_entropy fuses log_softmax with the negative log-likelihood: it saves two numbers per row instead of the
// log-probabilities, and its gradient is one pass over the logits, whose memory it reuses if nothing else holds them.
// f16 and bf16 logits are read without a cast.
#include "ops/loss.h"

#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/floating.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(cross_entropy, const View& loss, const View& largest, const View& log_sum, const View& total,
                const View& x, const View& target, const View& weight, const CrossEntropyOptions& options)
MANTISSA_KERNEL(cross_entropy_backward, const View& dx, const View& g, const View& x, const View& target,
                const View& weight, const View& largest, const View& log_sum, const View& total,
                const CrossEntropyOptions& options)
MANTISSA_KERNEL(nll_loss, const View& loss, const View& total, const View& x, const View& target,
                const View& weight, const NllOptions& options)
MANTISSA_KERNEL(nll_loss_backward, const View& dx, const View& g, const View& target, const View& weight,
                const View& total, const NllOptions& options)
MANTISSA_KERNEL(mse_loss, const View& y, const View& a, const View& b, Reduction reduction)

namespace {

// --- shared by the class losses; classes are dim 1, or dim 0 of a single sample ---
int class_dim(const Dims& x) { return x.rank() > 1 ? 1 : 0; }

Dims without_classes(const Dims& x) {
  Dims d = x;
  d.erase(class_dim(x));
  return d;
}

void check_class_loss(const Tensor& x, const Tensor& target, const Tensor& weight) {
  check_floating(x);
  check(x.dim() >= 1, "needs the shape [N, C, ...] or [C], got a scalar");
  check(target.dtype() == i64, "target is ", target.dtype(),
        ", expected class labels of dtype i64; convert with to(i64)");
  const Dims expected = without_classes(x.sizes());
  if (target.sizes() != expected) {
    Dims one = x.sizes();
    if (!one.empty()) one[class_dim(one)] = 1;
    Dims without_last = x.sizes();
    if (!without_last.empty()) without_last.erase(x.dim() - 1);
    fail("target has shape ", target.sizes(), ", expected ", expected, " for x of shape ", x.sizes(),
         target.sizes() == x.sizes() ? concat("; of a one-hot target take argmax(target, ", class_dim(one), ")")
         : target.sizes() == one     ? concat("; squeeze(", class_dim(one), ") removes its dimension of the classes")
         : x.dim() > 2 && target.sizes() == without_last
             ? concat("; dimension 1 is the classes: where it is the last, pass flatten(x, 0, -2) and flatten(target)")
             : concat());
  }
  if (!weight.defined()) return;
  const Dims classes{x.size(class_dim(x.sizes()))};
  check(weight.sizes() == classes, "weight has shape ", weight.sizes(), ", expected one per class, ", classes);
  check(weight.is_floating(), "weight is ", weight.dtype(), ", expected a floating dtype");
  check(!weight.requires_grad() || !grad_enabled(),
        "weight requires a gradient, which class weights do not get; pass weight.detach()");
}

// Reduces the losses, one per target.
Tensor reduced(const Tensor& each, const Tensor& total, Reduction reduction) {
  if (reduction == Reduction::none) return each;
  return reduction == Reduction::mean ? sum(each) / total : sum(each);
}
// The gradient of each target's loss, shaped to broadcast with x.
Tensor row_gradient(const Tensor& g, const Tensor& total, Reduction reduction, int dim) {
  if (reduction == Reduction::none) return unsqueeze(g, dim);
  if (reduction == Reduction::sum) return g;
  return where(eq(total, Tensor(0.0)), Tensor(0.0), g / total);  // all targets are ignored: the loss is NaN
}

// For the references: the target as weights on the classes of x.
struct Classes {
  Tensor weight;    // per class, broadcasts with x; ones by default
  Tensor chosen;    // x's shape: 1 at the label, 0 elsewhere and for ignored targets
  Tensor selected;  // broadcasts with x: 0 for ignored targets, else 1
  Tensor total;     // sum of the labels' weights

  Classes(const Dims& x, Dtype dtype, const Tensor& target, const Tensor& w, std::int64_t ignore) {
    const int dim = class_dim(x);
    Dims line = Dims::filled(x.rank(), 1);
    line[dim] = x[dim];
    const Tensor positions = reshape(arange(x[dim], {.dtype = i64, .device = target.device()}), line);
    const Tensor label = unsqueeze(target, dim);
    weight = w.defined() ? reshape(w, line) : ones(line, {.dtype = dtype, .device = target.device()});
    selected = cast(ne(label, Tensor(static_cast<double>(ignore))), dtype);
    chosen = cast(eq(positions, label), dtype) * selected;
    total = sum(chosen * weight);
  }
};

// --- cross_entropy ---
struct CrossEntropyBackward {
  static constexpr auto name = "cross_entropy_backward";
  static constexpr const char* args[] = {"gradient", "logits", "target", "weight", "largest", "log_sum", "total"};
  static constexpr bool halves = false;  // the saved tensors are never f16 or bf16
  CrossEntropyOptions options;

  Spec infer(const Tensor& g, const Tensor& x, const Tensor& target, const Tensor& weight, const Tensor& largest,
             const Tensor& log_sum, const Tensor& total) const {
    check_class_loss(x, target, weight);
    check_sizes(g, "gradient", options.reduction == Reduction::none ? target.sizes() : Dims{});
    check_sizes(largest, "largest", target.sizes());
    check_sizes(log_sum, "log_sum", target.sizes());
    check_sizes(total, "total", {});
    return like(x);
  }
  void run(const View& dx, const View& g, const View& x, const View& target, const View& weight,
           const View& largest, const View& log_sum, const View& total) const {
    kernels::cross_entropy_backward(x.device, dx, g, x, target, weight, largest, log_sum, total, options);
  }
  static Tensor reference(const CrossEntropyBackward& op, const Tensor& g, const Tensor& x,
                          const Tensor& target, const Tensor& weight,
                          const Tensor&, const Tensor&, const Tensor&) {
    const CrossEntropyOptions& o = op.options;
    const int dim = class_dim(x.sizes());
    const Tensor logits = cast(x, compute_dtype(x.dtype()));
    const Classes c(x.sizes(), logits.dtype(), target, weight, o.ignore_index);
    const double share = o.label_smoothing / static_cast<double>(x.size(dim));
    // The smoothed target: the weight of each class.
    const Tensor wanted = c.chosen * c.weight * (1 - o.label_smoothing) + c.selected * c.weight * share;
    const Tensor each = where(eq(c.selected, Tensor(0.0)), Tensor(0.0),  // regardless of the logits
                              softmax(logits, dim) * sum(wanted, {dim}, true) - wanted);
    const Tensor dx = row_gradient(g, c.total, o.reduction, dim) * each;
    return cast(dx, x.dtype());
  }
  static void samples(Samples& s);
};

struct CrossEntropy {
  static constexpr auto name = "cross_entropy";
  static constexpr const char* args[] = {"logits", "target", "weight"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool reads_half = true;
  CrossEntropyOptions options;

  // Results: loss; per target the largest logit and log(sum(exp(logits - largest))); total weight.
  std::array<Spec, 4> infer(const Tensor& x, const Tensor& target, const Tensor& weight) const {
    check_class_loss(x, target, weight);
    check(options.label_smoothing >= 0 && options.label_smoothing <= 1, "label_smoothing must be in [0, 1], got ",
          options.label_smoothing);
    const Dtype compute = compute_dtype(x.dtype());
    const Spec saved{target.sizes(), compute, x.device()};
    return {like(x, options.reduction == Reduction::none ? target.sizes() : Dims{}), saved, saved,
            Spec{{}, compute, x.device()}};
  }
  void run(const std::array<View, 4>& y, const View& x, const View& target, const View& weight) const {
    kernels::cross_entropy(x.device, y[0], y[1], y[2], y[3], x, target, weight, options);
  }
  static constexpr auto vjp() {
    return rules(
        [](const CrossEntropy& op, Grad g, In<0> x, In<1> target, In<2> weight, Out<1> largest, Out<2> log_sum,
           Out<3> total) {
          return apply_over({&x}, CrossEntropyBackward{op.options}, g, x, target, weight, largest, log_sum, total);
        },
        no_gradient, no_gradient);
  }
  static std::array<Tensor, 4> reference(const CrossEntropy& op, const Tensor& x, const Tensor& target,
                                         const Tensor& weight) {
    const CrossEntropyOptions& o = op.options;
    const int dim = class_dim(x.sizes());
    const Classes c(x.sizes(), x.dtype(), target, weight, o.ignore_index);
    const Tensor cost = -log_softmax(x, dim) * c.weight;
    Tensor each = (1 - o.label_smoothing) * sum(where(eq(c.chosen, Tensor(1.0)), cost, Tensor(0.0)), {dim});
    if (o.label_smoothing > 0) {
      const double share = o.label_smoothing / static_cast<double>(x.size(dim));
      each = each + share * sum(where(eq(c.selected, Tensor(1.0)), cost, Tensor(0.0)), {dim});
    }
    const Tensor largest = amax(x, {dim}, true);
    return {reduced(each, c.total, o.reduction), squeeze(largest, dim), log(sum(exp(x - largest), {dim})), c.total};
  }
  static void samples(Samples& s);
};

// --- nll_loss ---
struct NllLossBackward {
  static constexpr auto name = "nll_loss_backward";
  static constexpr const char* args[] = {"gradient", "target", "weight", "total"};
  static constexpr bool halves = false;  // the saved tensors are never f16 or bf16
  NllOptions options;
  Dims sizes;  // of dx

  Spec infer(const Tensor& g, const Tensor& target, const Tensor& weight, const Tensor& total) const {
    check(target.dtype() == i64, "target is ", target.dtype(), ", expected i64");
    check_sizes(target, "target", without_classes(sizes));
    if (weight.defined()) check_sizes(weight, "weight", {sizes[class_dim(sizes)]});
    check_sizes(g, "gradient", options.reduction == Reduction::none ? target.sizes() : Dims{});
    check_sizes(total, "total", {});
    return like(g, sizes);
  }
  void run(const View& dx, const View& g, const View& target, const View& weight, const View& total) const {
    kernels::nll_loss_backward(dx.device, dx, g, target, weight, total, options);
  }
  static Tensor reference(const NllLossBackward& op, const Tensor& g, const Tensor& target,
                          const Tensor& weight, const Tensor& total) {
    const Classes c(op.sizes, g.dtype(), target, weight, op.options.ignore_index);
    return -(row_gradient(g, total, op.options.reduction, class_dim(op.sizes)) * (c.chosen * c.weight));
  }
  static void samples(Samples& s);
};

struct NllLoss {
  static constexpr auto name = "nll_loss";
  static constexpr const char* args[] = {"log_probabilities", "target", "weight"};
  static constexpr auto autocast = CastPolicy::f32;
  NllOptions options;

  // Results: loss; total weight.
  std::array<Spec, 2> infer(const Tensor& x, const Tensor& target, const Tensor& weight) const {
    check_class_loss(x, target, weight);
    return {like(x, options.reduction == Reduction::none ? target.sizes() : Dims{}),
            Spec{{}, compute_dtype(x.dtype()), x.device()}};
  }
  void run(const std::array<View, 2>& y, const View& x, const View& target, const View& weight) const {
    kernels::nll_loss(x.device, y[0], y[1], x, target, weight, options);
  }
  static constexpr auto vjp() {
    return rules(
        [](const NllLoss& op, Grad g, Shape<0> x, In<1> target, In<2> weight, Out<1> total) {
          return apply(NllLossBackward{op.options, x.sizes}, g, target, weight, total);
        },
        no_gradient, no_gradient);
  }
  static std::array<Tensor, 2> reference(const NllLoss& op, const Tensor& x, const Tensor& target,
                                         const Tensor& weight) {
    const Classes c(x.sizes(), x.dtype(), target, weight, op.options.ignore_index);
    const Tensor each = sum(where(eq(c.chosen, Tensor(1.0)), -x * c.weight, Tensor(0.0)), {class_dim(x.sizes())});
    return {reduced(each, c.total, op.options.reduction), c.total};
  }
  static void samples(Samples& s);
};

// --- mse_loss ---
struct MseLoss {
  static constexpr auto name = "mse_loss";
  static constexpr const char* args[] = {"x", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  Reduction reduction = Reduction::mean;

  Spec infer(const Tensor& x, const Tensor& target) const {
    check(x.is_floating() && target.is_floating(), "needs floating dtypes; convert with to(f32)");
    check_broadcasts_to(x, target);
    return {reduction == Reduction::none ? x.sizes() : Dims{}, promote(x.dtype(), target.dtype()), x.device()};
  }
  void run(const View& y, const View& x, const View& target) const {
    const Dims sizes = broadcast(x.sizes, target.sizes);
    View a = x, b = target;
    a.strides = broadcast_strides(x.sizes, x.strides, sizes);
    b.strides = broadcast_strides(target.sizes, target.strides, sizes);
    a.sizes = b.sizes = sizes;
    kernels::mse_loss(y.device, y, a, b, reduction);
  }
  static constexpr auto vjp() {
    return joint([](const MseLoss& op, Needs needs, Grad g, In<0> x, In<1> target) {
      const bool half = is_half(g.dtype());  // 2 / n could underflow
      const Tensor difference = half ? cast(x, f32) - cast(target, f32) : x - target;
      const double factor = op.reduction == Reduction::mean ? 2 / static_cast<double>(difference.numel()) : 2;
      const Tensor d = (half ? cast(g, f32) : Tensor(g)) * factor * difference;
      return std::array<Tensor, 2>{d, needs[1] ? -d : Tensor()};
    });
  }
  static Tensor reference(const MseLoss& op, const Tensor& x, const Tensor& target) {
    const Tensor each = square(x - target);
    return op.reduction == Reduction::none ? each : op.reduction == Reduction::mean ? mean(each) : sum(each);
  }
  static void samples(Samples& s);
};

// --- samples ---
constexpr Reduction reductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

// Calls add(x's sizes, target, weight, reduction, ignored label) for the test cases of both class losses.
template <class F> void class_loss_cases(Samples& s, F&& add) {
  const Tensor none;
  for (const Reduction r : reductions) {
    add(Dims{5, 4}, s.integers({5}, 0, 4), none, r, -100);
    add(Dims{5, 4}, s.integers({5}, 0, 4), s.uniform({4}, 0.5, 2), r, 2);
    add(Dims{2, 3, 4}, s.integers({2, 4}, 0, 3), s.uniform({3}, 0.5, 2), r, -100);
  }
  add(Dims{2, 5, 2, 3}, s.integers({2, 2, 3}, 0, 5), none, Reduction::mean, 1);
  add(Dims{6}, s.integers({}, 0, 6), none, Reduction::mean, -100);
  add(Dims{3, 1}, s.integers({3}, 0, 1), none, Reduction::mean, -100);
  add(Dims{3, 700}, s.integers({3}, 0, 700), none, Reduction::mean, -100);
  add(Dims{0, 3}, s.integers({0}, 0, 3), none, Reduction::sum, -100);
}
template <class Op> void class_loss_errors(Samples& s) {
  const Tensor none;
  s.error({s.randn({2, 3}), s.integers({2}, 3, 4), none}, Op{},
          "label 3 at position 0 of the target is out of range for 3 classes");
  s.error({s.randn({2, 3}), s.integers({2}, -1, 0), none}, Op{},
          "label -1 at position 0 of the target is out of range for 3 classes");
  s.error({s.randn({2, 3}), s.integers({3}, 0, 3), none}, Op{}, "target has shape [3], expected [2]");
  s.error({s.randn({2, 4, 3}), s.integers({2, 4}, 0, 3), none}, Op{}, "pass flatten(x, 0, -2) and flatten(target)");
  s.error({s.randn({2, 3}), s.integers({2, 1}, 0, 3), none}, Op{},
          "expected [2] for x of shape [2, 3]; squeeze(1) removes");
  s.error({s.randn({2, 3}), s.integers({2, 3}, 0, 2), none}, Op{}, "of a one-hot target take argmax(target, 1)");
  s.error({s.randn({2, 3}), s.randn({2}), none}, Op{}, "expected class labels of dtype i64");
  s.error({s.randn({2, 3}), s.integers({2}, 0, 3), s.randn({2})}, Op{},
          "weight has shape [2], expected one per class, [3]");
  s.error({s.integers({2, 3}, 0, 2), s.integers({2}, 0, 3), none}, Op{}, "needs a floating dtype");
}
Tensor weight_for(const Tensor& weight, const Tensor& x) {
  return weight.defined() ? cast(weight, x.dtype()).to(x.device()) : weight;
}

void CrossEntropy::samples(Samples& s) {
  for (const double smoothing : {0.0, 0.1}) {
    class_loss_cases(s,
                     [&](const Dims& x, const Tensor& target, const Tensor& weight, Reduction r, std::int64_t ignore) {
                       s({s.randn(x), target, weight}, CrossEntropy{{smoothing, ignore, r}});
                     });
  }
  s.extreme({s.uniform({3, 5}, -1e4, 1e4), s.integers({3}, 0, 5), Tensor()}, CrossEntropy{});
  class_loss_errors<CrossEntropy>(s);
  s.error({s.randn({2, 3}), s.integers({2}, 0, 3), Tensor()}, CrossEntropy{{.label_smoothing = 1.5}},
          "label_smoothing must be in [0, 1]");
}
// The saved tensors are recomputed from x in every call, so that they follow changes of x.
void CrossEntropyBackward::samples(Samples& s) {
  for (const double smoothing : {0.0, 0.1}) {
    class_loss_cases(
        s, [&](const Dims& sizes, const Tensor& target, const Tensor& weight, Reduction r, std::int64_t ignore) {
          const CrossEntropyBackward op{{smoothing, ignore, r}};
          s.call(
              {s.randn(r == Reduction::none ? target.sizes() : Dims{}), s.randn(sizes), target},
              [=](const Tensors& x) {
                const Tensor w = weight_for(weight, x[1]);
                const auto y = apply(CrossEntropy{op.options}, x[1].detach(), x[2], w);
                return Samples::list(apply(op, x[0], x[1], x[2], w, y[1], y[2], y[3]));
              },
              [=](const Tensors& x) {
                return Samples::list(reference(op, x[0], x[1], x[2], weight_for(weight, x[1]), {}, {}, {}));
              });
        });
  }
}
void NllLoss::samples(Samples& s) {
  class_loss_cases(s, [&](const Dims& x, const Tensor& target, const Tensor& weight, Reduction r, std::int64_t ignore) {
    s({s.randn(x), target, weight}, NllLoss{{ignore, r}});
  });
  class_loss_errors<NllLoss>(s);
}
void NllLossBackward::samples(Samples& s) {
  class_loss_cases(
      s, [&](const Dims& sizes, const Tensor& target, const Tensor& weight, Reduction r, std::int64_t ignore) {
        const NllLossBackward op{{ignore, r}, sizes};
        const Tensor total = apply(NllLoss{op.options}, s.randn(sizes), target, weight)[1];
        auto with = [=](auto&& f) {
          return [=](const Tensors& x) {
            return Samples::list(
                f(x[0], x[1], weight_for(weight, x[0]), cast(total, compute_dtype(x[0].dtype())).to(x[0].device())));
          };
        };
        s.call({s.randn(r == Reduction::none ? target.sizes() : Dims{}), target},
               with([=](const auto&... x) { return apply(op, x...); }),
               with([=](const auto&... x) { return reference(op, x...); }));
      });
}
void MseLoss::samples(Samples& s) {
  for (const Reduction r : reductions) {
    s({s.randn({4, 3}), s.randn({4, 3})}, MseLoss{r});
    s({s.randn({4, 3}), s.randn({3})}, MseLoss{r});
    s({s.randn({}), s.randn({})}, MseLoss{r});
  }
  s({s.randn({3, 1100}), s.randn({3, 1100})}, MseLoss{});
  s({s.randn({0}), s.randn({0})}, MseLoss{Reduction::sum});
  s.error({s.randn({2}), s.randn({3})}, MseLoss{}, "sizes [2] and [3] do not broadcast");
  s.error({s.randn({4, 1}), s.randn({4})}, MseLoss{}, "target has shape [4], which does not broadcast to x's [4, 1]");
  s.error({s.integers({2}, 0, 3), s.randn({2})}, MseLoss{}, "needs floating dtypes");
}

}  // namespace

MANTISSA_OP(CrossEntropy)
MANTISSA_OP(CrossEntropyBackward)
MANTISSA_OP(NllLoss)
MANTISSA_OP(NllLossBackward)
MANTISSA_OP(MseLoss)

Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options, const Tensor& weight) {
  if (target.defined() && target.is_floating()) return cross_entropy_soft(logits, target, options, weight);
  return apply(CrossEntropy{options}, logits, target, weight)[0];
}
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, NllOptions options, const Tensor& weight) {
  return apply(NllLoss{options}, log_probabilities, target, weight)[0];
}
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return apply(MseLoss{reduction}, x, target);
}

}  // namespace mantissa
