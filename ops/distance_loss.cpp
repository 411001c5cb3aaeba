// Losses of pairs and triplets: margins, cosine similarity, triplet margin. Composed of other operators.
#include <cmath>
#include <limits>

#include "ops/loss.h"

namespace mantissa {
namespace {

// max(x, low); where they are equal, the gradient is 0, as that of PyTorch's clamp_min.
Tensor at_least(const Tensor& x, double low) { return clamp(x, low, std::numeric_limits<double>::infinity()); }
constexpr Reduction reductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
// Targets 1 and -1.
Tensor signs(Samples& s, const Dims& sizes) { return 2.0 * cast(s.booleans(sizes), f64) - 1.0; }

struct HingeEmbedding {
  static constexpr auto name = "hinge_embedding_loss";
  static constexpr const char* args[] = {"x", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  static constexpr std::uint64_t constants = 2;  // target
  double margin = 1;
  Reduction reduction = Reduction::mean;
  static Tensor compose(const HingeEmbedding& op, const Tensor& x, const Tensor& target) {
    const Tensor far = where(ne(target, Tensor(1.0)), at_least(op.margin - x, 0), Tensor(0.0));
    return reduced_loss(far + where(ne(target, Tensor(-1.0)), x, Tensor(0.0)), op.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : reductions) composed(s, {s.randn({4, 3}), signs(s, {4, 3})}, HingeEmbedding{0.5, r});
    composed_error(s, {s.randn({3}), signs(s, {2})}, HingeEmbedding{}, "do not broadcast");
  }
};

struct MarginRanking {
  static constexpr auto name = "margin_ranking_loss";
  static constexpr const char* args[] = {"x1", "x2", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  double margin = 0;
  Reduction reduction = Reduction::mean;
  static Tensor compose(const MarginRanking& op, const Tensor& x1, const Tensor& x2, const Tensor& target) {
    check(x1.dim() == x2.dim() && x1.dim() == target.dim(),
          "x1, x2 and target need the same number of dimensions, got ", x1.sizes(), ", ", x2.sizes(), " and ",
          target.sizes());
    return reduced_loss(at_least(op.margin - target * (x1 - x2), 0), op.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : reductions)
      composed(s, {s.randn({5}), s.randn({5}), signs(s, {5})}, MarginRanking{0.5, r});
    composed_error(s, {s.randn({3}), s.randn({3, 1}), signs(s, {3})}, MarginRanking{}, "the same number of dimensions");
  }
};

struct CosineSimilarity {
  static constexpr auto name = "cosine_similarity";
  static constexpr const char* args[] = {"x1", "x2"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  int dim = 1;
  double eps = 1e-8;
  static Tensor compose(const CosineSimilarity& op, const Tensor& x1, const Tensor& x2) {
    check_floating_pair(x1, x2);
    const Dims sizes = broadcast(x1.sizes(), x2.sizes());
    const Dims dims{wrap_dim(op.dim, sizes.rank())};
    const Tensor a = expand(x1, sizes), b = expand(x2, sizes);
    const Tensor length_a = at_least(norm(a, 2, dims, true), op.eps),
                 length_b = at_least(norm(b, 2, dims, true), op.eps);
    return sum((a / length_a) * (b / length_b), dims);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({4, 3}), s.randn({4, 3})}, CosineSimilarity{});
    composed(s, {s.randn({4, 3}), s.randn({1, 3})}, CosineSimilarity{0});
    composed(s, {s.randn({5}), s.randn({5})}, CosineSimilarity{-1});
    composed_error(s, {s.randn({5}), s.randn({5})}, CosineSimilarity{}, "dim 1 is out of range for 1 dimensions");
    composed_error(s, {s.integers({2, 2}, 0, 3), s.randn({2, 2})}, CosineSimilarity{}, "needs floating dtypes");
  }
};

struct PairwiseDistance {
  static constexpr auto name = "pairwise_distance";
  static constexpr const char* args[] = {"x1", "x2"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  double p = 2, eps = 1e-6;
  bool keepdim = false;
  static Tensor compose(const PairwiseDistance& op, const Tensor& x1, const Tensor& x2) {
    check_floating_pair(x1, x2);
    return norm(x1 - x2 + op.eps, op.p, {-1}, op.keepdim);
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({4, 3}), s.randn({4, 3})}, PairwiseDistance{});
    composed(s, {s.randn({4, 3}), s.randn({3})}, PairwiseDistance{1, 1e-6, true});
    composed_error(s, {s.randn({2}), s.randn({3})}, PairwiseDistance{}, "do not broadcast");
  }
};

struct CosineEmbedding {
  static constexpr auto name = "cosine_embedding_loss";
  static constexpr const char* args[] = {"x1", "x2", "target"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  static constexpr std::uint64_t constants = 4;  // target
  double margin = 0;
  Reduction reduction = Reduction::mean;
  static Tensor compose(const CosineEmbedding& op, const Tensor& x1, const Tensor& x2, const Tensor& target) {
    check(
        (target.dim() == 1 && x1.dim() == 2 && x2.dim() == 2) || (target.dim() == 0 && x1.dim() == 1 && x2.dim() == 1),
        "needs x1 and x2 [N, D] with target [N], or [D] with a scalar, got ", x1.sizes(), ", ", x2.sizes(), " and ",
        target.sizes());
    constexpr double eps = 1e-12;  // as in PyTorch, inside the root
    const Tensor lengths = (sum(square(x1), {-1}) + eps) * (sum(square(x2), {-1}) + eps);
    const Tensor cosine = sum(x1 * x2, {-1}) / sqrt(lengths);
    const Tensor near = where(eq(target, Tensor(1.0)), 1.0 - cosine, Tensor(0.0));
    return reduced_loss(near + where(eq(target, Tensor(-1.0)), at_least(cosine - op.margin, 0), Tensor(0.0)),
                        op.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : reductions)
      composed(s, {s.randn({4, 3}), s.randn({4, 3}), signs(s, {4})}, CosineEmbedding{-0.5, r});
    composed(s, {s.randn({3}), s.randn({3}), signs(s, {})}, CosineEmbedding{});
    composed_error(s, {s.randn({4, 3}), s.randn({4, 3}), signs(s, {4, 1})}, CosineEmbedding{},
                   "needs x1 and x2 [N, D] with target [N]");
  }
};

struct TripletMargin {
  static constexpr auto name = "triplet_margin_loss";
  static constexpr const char* args[] = {"anchor", "positive", "negative"};
  static constexpr auto autocast = CastPolicy::f32;
  static constexpr bool differentiable = true;
  TripletMarginOptions options;
  static Tensor compose(const TripletMargin& op, const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
    const TripletMarginOptions& o = op.options;
    check(anchor.dim() == positive.dim() && anchor.dim() == negative.dim(),
          "anchor, positive and negative need the same number of "
          "dimensions, got ",
          anchor.sizes(), ", ", positive.sizes(), " and ", negative.sizes());
    check(o.margin > 0, "margin is ", o.margin, ", expected more than 0");
    const Tensor near = pairwise_distance(anchor, positive, o.p, o.eps);
    Tensor far = pairwise_distance(anchor, negative, o.p, o.eps);
    if (o.swap) far = minimum(far, pairwise_distance(positive, negative, o.p, o.eps));
    return reduced_loss(at_least(near - far + o.margin, 0), o.reduction);
  }
  static void samples(Samples& s) {
    for (const Reduction r : reductions) {
      composed(s, {s.randn({4, 3}), s.randn({4, 3}), s.randn({4, 3})}, TripletMargin{{.margin = 2, .reduction = r}});
    }
    composed(s, {s.randn({4, 3}), s.randn({4, 3}), s.randn({4, 3})}, TripletMargin{{.p = 1, .swap = true}});
    composed_error(s, {s.randn({4, 3}), s.randn({3}), s.randn({4, 3})}, TripletMargin{},
                   "the same number of dimensions");
    composed_error(s, {s.randn({3}), s.randn({3}), s.randn({3})}, TripletMargin{{.margin = 0}}, "margin is 0");
  }
};

}  // namespace

MANTISSA_OP(HingeEmbedding)
MANTISSA_OP(MarginRanking)
MANTISSA_OP(CosineSimilarity)
MANTISSA_OP(PairwiseDistance)
MANTISSA_OP(CosineEmbedding)
MANTISSA_OP(TripletMargin)

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin, Reduction reduction) {
  return apply_composed(HingeEmbedding{margin, reduction}, x, target);
}
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                           Reduction reduction) {
  return apply_composed(MarginRanking{margin, reduction}, x1, x2, target);
}
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int dim, double eps) {
  return apply_composed(CosineSimilarity{dim, eps}, x1, x2);
}
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  return apply_composed(PairwiseDistance{p, eps, keepdim}, x1, x2);
}
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                             Reduction reduction) {
  return apply_composed(CosineEmbedding{margin, reduction}, x1, x2, target);
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           TripletMarginOptions options) {
  return apply_composed(TripletMargin{options}, anchor, positive, negative);
}

}  // namespace mantissa
