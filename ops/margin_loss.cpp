// Margin losses of class scores, and triplet loss with a user-defined distance. Composed of other operators; formulas
// and reductions are PyTorch's. Read first: ops/distance_loss.cpp.
#include <cmath>

#include "ops/loss.h"

namespace mantissa {
namespace {

Tensor at_least_0(const Tensor& x) { return clamp_min(x, 0); }
constexpr Reduction reductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

struct SoftMargin {
  static constexpr auto name = "soft_margin_loss";
  static constexpr const char* args[] = {"x", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  static constexpr std::uint64_t constants = 2;  // target
  Reduction reduction = Reduction::mean;
  static Tensor compose(const SoftMargin& op, const Tensor& x, const Tensor& target) {
    check_floating_pair(x, target);
    check_same_shape(x, target);
    return reduced_loss(-logsigmoid(target * x), op.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : reductions)
      composed(s, {s.randn({4, 3}), 2.0 * cast(s.booleans({4, 3}), f64) - 1.0}, SoftMargin{r});
    composed_error(s, {s.randn({3}), s.randn({2})}, SoftMargin{}, "target has shape [2], expected [3]");
  }
};

// Scores [C] count as one sample.
Tensor as_batch(const Tensor& t, int dims) { return t.dim() < dims ? unsqueeze(t, 0) : t; }

struct MultiMargin {
  static constexpr auto name = "multi_margin_loss";
  static constexpr const char* args[] = {"x", "target", "weight"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  static constexpr std::uint64_t constants = 0b110;
  MultiMarginOptions options = {};
  static Tensor compose(const MultiMargin& op, const Tensor& given, const Tensor& target, const Tensor& weight) {
    check(given.is_floating() && (given.dim() == 1 || given.dim() == 2), "x must be floating, [N, C] or [C]");
    check(op.options.p == 1 || op.options.p == 2, "p must be 1 or 2, got ", op.options.p);
    const Tensor x = as_batch(given, 2), y = as_batch(target, 1);
    check(y.dtype() == i64 && y.sizes() == Dims{x.size(0)}, "target must be i64 [", x.size(0),
          "], one class per sample");
    check(!weight.defined() || weight.sizes() == Dims{x.size(1)}, "weight must be [", x.size(1),
          "], one number per class");
    const Tensor index = unsqueeze(y, 1);
    Tensor each = at_least_0(x - gather(x, 1, index) + op.options.margin);
    if (op.options.p == 2) each = square(each);
    if (weight.defined()) each = each * unsqueeze(gather(weight, 0, y), 1);
    const Tensor others = ne(arange(x.size(1), {.device = x.device()}), index);
    const Tensor loss = sum(where(others, each, Tensor(0.0)), {1}) / static_cast<double>(x.size(1));
    return reduced_loss(given.dim() == 1 ? squeeze(loss, 0) : loss, op.options.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : reductions) {
      composed(s, {s.randn({4, 3}), s.integers({4}, 0, 3), s.uniform({3}, 0.5, 2)},
               MultiMargin{{.p = 2, .margin = 0.75, .reduction = r}});
    }
    composed(s, {s.randn({5}), s.integers({}, 0, 5), Tensor()}, MultiMargin{});
    composed_error(s, {s.randn({4, 3}), s.integers({3}, 0, 3), Tensor()}, MultiMargin{}, "target must be i64 [4]");
    composed_error(s, {s.randn({4, 3}), s.integers({4}, 3, 4), Tensor()}, MultiMargin{}, "index 3 is out of range");
    composed_error(s, {s.randn({4, 3}), s.integers({4}, 0, 3), s.randn({2})}, MultiMargin{}, "weight must be [3]");
    composed_error(s, {s.randn({4, 3}), s.integers({4}, 0, 3), Tensor()}, MultiMargin{{.p = 3}},
                   "p must be 1 or 2, got 3");
  }
};

struct MultilabelMargin {
  static constexpr auto name = "multilabel_margin_loss";
  static constexpr const char* args[] = {"x", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  Reduction reduction = Reduction::mean;
  static Tensor compose(const MultilabelMargin& op, const Tensor& given, const Tensor& target) {
    check(given.is_floating() && (given.dim() == 1 || given.dim() == 2), "x must be floating, [N, C] or [C]");
    check(target.dtype() == i64 && target.sizes() == given.sizes(), "target must be i64 and of x's shape ",
          given.sizes());
    const Tensor x = as_batch(given, 2), y = as_batch(target, 2);
    const Tensor used = cumprod(cast(ge(y, Tensor(0.0)), i64), 1);  // 1 up to the first -1
    const Tensor index = y * used, zero = zeros_like(y);
    const Tensor is_target = gt(scatter_add(zero, 1, index, used), Tensor(0.0));
    const Tensor margins = at_least_0(unsqueeze(x, 1) - unsqueeze(gather(x, 1, index), 2) + 1.0);  // [N, target, other]
    const Tensor counts = logical_and(ne(unsqueeze(used, 2), Tensor(0.0)), logical_not(unsqueeze(is_target, 1)));
    const Tensor loss = sum(where(counts, margins, Tensor(0.0)), {1, 2}) / static_cast<double>(x.size(1));
    return reduced_loss(given.dim() == 1 ? squeeze(loss, 0) : loss, op.reduction);
  }
  static void samples(Samples& s) {
    const Tensor y = tensor({{2, 0, -1, 1}, {1, -1, 3, 0}, {3, 2, 1, 0}});
    for (const Reduction r : reductions) composed(s, {s.randn({3, 4}), y}, MultilabelMargin{r});
    composed(s, {s.randn({4}), tensor({-1, 0, 1, 2})}, MultilabelMargin{});
    composed_error(s, {s.randn({3, 4}), s.integers({3}, 0, 3)}, MultilabelMargin{},
                   "target must be i64 and of x's shape [3, 4]");
    composed_error(s, {s.randn({3}), s.integers({3}, 3, 4)}, MultilabelMargin{}, "index 3 is out of range");
  }
};

struct MultilabelSoftMargin {
  static constexpr auto name = "multilabel_soft_margin_loss";
  static constexpr const char* args[] = {"x", "target", "weight"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  Reduction reduction = Reduction::mean;
  static Tensor compose(const MultilabelSoftMargin& op, const Tensor& x, const Tensor& target, const Tensor& weight) {
    check_floating_pair(x, target);
    check_same_shape(x, target);
    check(x.dim() > 0, "x must be [..., classes]");
    Tensor each = -(target * logsigmoid(x) + (1.0 - target) * logsigmoid(-x));
    if (weight.defined()) each = each * weight;
    return reduced_loss(mean(each, {-1}), op.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : reductions)
      composed(s, {s.randn({4, 3}), s.uniform({4, 3}, 0, 1), s.uniform({3}, 0.5, 2)}, MultilabelSoftMargin{r});
    composed(s, {s.randn({3}), s.uniform({3}, 0, 1), Tensor()}, MultilabelSoftMargin{});
    composed_error(s, {s.randn({3}), s.randn({2}), Tensor()}, MultilabelSoftMargin{},
                   "target has shape [2], expected [3]");
    composed_error(s, {s.randn({3}), s.integers({3}, 0, 2), Tensor()}, MultilabelSoftMargin{}, "needs floating dtypes");
  }
};

}  // namespace

MANTISSA_OP(SoftMargin)
MANTISSA_OP(MultiMargin)
MANTISSA_OP(MultilabelMargin)
MANTISSA_OP(MultilabelSoftMargin)

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction r) {
  return apply_composed(SoftMargin{r}, x, target);
}
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, MultiMarginOptions o, const Tensor& weight) {
  return apply_composed(MultiMargin{o}, x, target, weight);
}
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction r) {
  return apply_composed(MultilabelMargin{r}, x, target);
}
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight, Reduction r) {
  return apply_composed(MultilabelSoftMargin{r}, x, target, weight);
}
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const Distance& distance, TripletMarginWithDistanceOptions o) {
  check(o.margin > 0, "triplet_margin_with_distance_loss: margin must be positive, got ", o.margin);
  check(anchor.dim() == positive.dim() && anchor.dim() == negative.dim(), "triplet_margin_with_distance_loss: anchor ",
        anchor, ", positive ", positive, " and negative ", negative, " need the same number of dimensions");
  const auto apart = [&](const Tensor& a, const Tensor& b) {
    return distance ? distance(a, b) : pairwise_distance(a, b);
  };
  const Tensor near = apart(anchor, positive);
  Tensor far = apart(anchor, negative);
  if (o.swap) far = minimum(far, apart(positive, negative));
  return reduced_loss(at_least_0(near - far + o.margin), o.reduction);
}

namespace {
void triplet_margin_with_distance_loss_samples(Samples& s) {
  const auto call = [](const Distance& d, TripletMarginWithDistanceOptions o) {
    return [=](const Tensors& x) { return triplet_margin_with_distance_loss(x[0], x[1], x[2], d, o); };
  };
  const auto three = [&] { return Tensors{s.randn({4, 3}), s.randn({4, 3}), s.randn({4, 3})}; };
  s.call(three(), call({}, {}));
  s.call(three(), call([](const Tensor& a, const Tensor& b) { return 1.0 - cosine_similarity(a, b); },
                       {.margin = 0.5, .swap = true}));
  s.error_call({s.randn({4, 3}), s.randn({3}), s.randn({4, 3})}, call({}, {}), "need the same number of dimensions");
  s.error_call(three(), call({}, {.margin = 0}), "margin must be positive, got 0");
}
MANTISSA_COMPOSITE(triplet_margin_with_distance_loss, triplet_margin_with_distance_loss_samples)
}  // namespace
}  // namespace mantissa
