// cross_entropy with probabilities instead of class labels, as used by MixUp and distillation.
#include "ops/loss.h"

namespace mantissa {
namespace {

struct CrossEntropySoft {
  static constexpr auto name = "cross_entropy_soft";
  static constexpr const char* args[] = {"logits", "target", "weight"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  CrossEntropyOptions options;
  static Tensor compose(const CrossEntropySoft& op, const Tensor& x, const Tensor& target, const Tensor& weight) {
    check_floating_pair(x, target);
    check(x.dim() >= 1, "needs the shape [N, C, ...] or [C], got a scalar");
    check(x.sizes() == target.sizes(), "target has shape ", target.sizes(), ", expected probabilities of shape ",
          x.sizes(), ", or class labels of dtype i64");
    const double smoothing = op.options.label_smoothing;
    check(smoothing >= 0 && smoothing <= 1, "label_smoothing must be in [0, 1], got ", smoothing);
    const int dim = x.dim() > 1 ? 1 : 0;
    const std::int64_t classes = x.size(dim);
    Tensor wanted = smoothing > 0 ? target * (1 - smoothing) + smoothing / static_cast<double>(classes) : target;
    if (weight.defined()) {
      check(weight.sizes() == Dims{classes}, "weight has shape ", weight.sizes(), ", expected one per class, [",
            classes, "]");
      Dims shape;
      for (int d = 0; d < x.dim(); ++d) shape.push_back(d == dim ? classes : 1);
      wanted = wanted * reshape(weight, shape);
    }
    const Tensor each = -sum(wanted * log_softmax(x, dim), {dim});
    return reduced_loss(each, op.options.reduction);  // the mean is over samples, regardless of their weights
  }
  static void samples(Samples& s) {
    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none})
      composed(s, {s.randn({4, 3}), s.uniform({4, 3}, 0, 1), Tensor()}, CrossEntropySoft{{.reduction = r}});
    composed(s, {s.randn({2, 3, 4}), s.uniform({2, 3, 4}, 0, 1), s.uniform({3}, 0.5, 2)},
             CrossEntropySoft{{.label_smoothing = 0.1}});
    composed(s, {s.randn({3}), s.uniform({3}, 0, 1), Tensor()}, CrossEntropySoft{});
    composed_error(s, {s.randn({4, 3}), s.uniform({4}, 0, 1), Tensor()}, CrossEntropySoft{},
                   "expected probabilities of shape [4, 3]");
    composed_error(s, {s.randn({4, 3}), s.uniform({4, 3}, 0, 1), s.uniform({4}, 0, 1)}, CrossEntropySoft{},
                   "expected one per class, [3]");
    composed_error(s, {s.randn({4, 3}), s.uniform({4, 3}, 0, 1), Tensor()}, CrossEntropySoft{{.label_smoothing = 2}},
                   "label_smoothing must be in [0, 1]");
  }
};

}  // namespace

MANTISSA_OP(CrossEntropySoft)

Tensor cross_entropy_soft(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options,
                          const Tensor& weight) {
  return apply_composed(CrossEntropySoft{options}, logits, target, weight);
}

}  // namespace mantissa
