// Losses as objects that hold their options, with PyTorch's names and defaults. The function forms (cross_entropy,
// mse_loss, ...) are in core/ops.h. nn::CrossEntropyLoss loss{{.label_smoothing = 0.1}};
#pragma once

#include "core/linear_cross_entropy.h"
#include "core/ops.h"
#include "nn/fields.h"
#include "nn/linear.h"

namespace mantissa::nn {

struct CrossEntropyLoss {  // logits [N, C, ...], target i64 [N, ...]
  CrossEntropyOptions options = {};
  Buffer weight = {};  // per class [C], or undefined
  MANTISSA_FIELDS(weight)
  Tensor operator()(const Tensor& logits, const Tensor& target) const {
    return cross_entropy(logits, target, options, weight);
  }
};
// A classifier's last layer fused with its loss, without materialising all logits; for when and how much memory that
// saves see core/linear_cross_entropy.h. As torch.nn's, with its names (linear.weight, linear.bias, weight),
// out_features and bias.
//   nn::LinearCrossEntropyLoss loss{768, 50304};    loss(features [N, 768], target i64 [N])
//   nn::tie(loss.linear.weight, token.weight);      tied to an embedding
struct LinearCrossEntropyLossOptions {
  Dims out_features = {};  // d1, ...: logits are [N, num_classes, d1, ...], computed by the two separate operators
  bool bias = false;
  LinearCrossEntropyOptions loss = {};
};
class LinearCrossEntropyLoss {
 public:
  LinearCrossEntropyLoss(std::int64_t in_features, std::int64_t num_classes,
                         const LinearCrossEntropyLossOptions& o = {}, const Tensor& class_weight = {})
      : linear(in_features, num_classes * numel_of(o.out_features), {.bias = o.bias}), weight(class_weight),
        options(o.loss), sizes_(o.out_features) {
    sizes_.insert(0, num_classes);
  }
  // x [in], [N, in] or [B, T, in]; target [], [N], [B, T], or [N, d1, ...]
  Tensor operator()(const Tensor& x, const Tensor& target) const {
    if (sizes_.rank() == 1) return linear_cross_entropy(x, linear.weight, target, linear.bias, options, weight);
    Dims shape = sizes_;
    shape.push_back(linear.weight.size(1));
    const Tensor bias = linear.bias.defined() ? reshape(linear.bias, sizes_) : Tensor();
    return linear_cross_entropy(x, reshape(linear.weight, shape), target, bias, options, weight);
  }

  Linear linear;
  Buffer weight;  // per class [num_classes], or undefined
  LinearCrossEntropyOptions options;
  MANTISSA_FIELDS(linear, weight)
  LinearCrossEntropyLoss clone() const {
    LinearCrossEntropyLoss c(linear.clone());
    c.weight = nn::clone(weight);
    c.options = options;
    c.sizes_ = sizes_;
    return c;
  }

 private:
  explicit LinearCrossEntropyLoss(Linear l) : linear(std::move(l)) {}
  Dims sizes_;  // num_classes, d1, ...
};
struct NLLLoss {  // x: log-probabilities [N, C, ...], target i64 [N, ...]
  NllOptions options = {};
  Buffer weight = {};
  MANTISSA_FIELDS(weight)
  Tensor operator()(const Tensor& log_probabilities, const Tensor& target) const {
    return nll_loss(log_probabilities, target, options, weight);
  }
};
struct MSELoss {
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return mse_loss(x, target, reduction); }
};
struct L1Loss {
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return l1_loss(x, target, reduction); }
};
struct SmoothL1Loss {
  Reduction reduction = Reduction::mean;
  double beta = 1;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return smooth_l1_loss(x, target, reduction, beta); }
};
struct HuberLoss {
  Reduction reduction = Reduction::mean;
  double delta = 1;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return huber_loss(x, target, reduction, delta); }
};
struct BCELoss {  // x: probabilities
  Buffer weight = {};  // broadcasts with x, or undefined
  Reduction reduction = Reduction::mean;
  MANTISSA_FIELDS(weight)
  Tensor operator()(const Tensor& x, const Tensor& target) const {
    return binary_cross_entropy(x, target, weight, reduction);
  }
};
struct BCEWithLogitsLoss {  // x: logits
  Buffer weight = {};
  Reduction reduction = Reduction::mean;
  Buffer pos_weight = {};  // weight of positive examples; broadcasts with x, or undefined
  MANTISSA_FIELDS(weight, pos_weight)
  Tensor operator()(const Tensor& x, const Tensor& target) const {
    return binary_cross_entropy_with_logits(x, target, weight, reduction, pos_weight);
  }
};
struct KLDivLoss {  // x: log-probabilities
  KlReduction reduction = KlReduction::mean;
  bool log_target = false;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return kl_div(x, target, reduction, log_target); }
};
struct PoissonNLLLoss {
  PoissonNllOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& target) const { return poisson_nll_loss(x, target, options); }
};
struct GaussianNLLLoss {
  GaussianNllOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& target, const Tensor& var) const {
    return gaussian_nll_loss(x, target, var, options);
  }
};
struct HingeEmbeddingLoss {  // target 1 or -1
  double margin = 1;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target) const {
    return hinge_embedding_loss(x, target, margin, reduction);
  }
};
struct MarginRankingLoss {
  double margin = 0;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x1, const Tensor& x2, const Tensor& target) const {
    return margin_ranking_loss(x1, x2, target, margin, reduction);
  }
};
struct CosineEmbeddingLoss {
  double margin = 0;
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x1, const Tensor& x2, const Tensor& target) const {
    return cosine_embedding_loss(x1, x2, target, margin, reduction);
  }
};
struct TripletMarginLoss {
  TripletMarginOptions options = {};
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return triplet_margin_loss(anchor, positive, negative, options);
  }
};
struct TripletMarginWithDistanceLoss {  // nn::TripletMarginWithDistanceLoss{my_distance, {.margin = 0.5}}
  Distance distance_function = {};  // pairwise_distance when empty
  TripletMarginWithDistanceOptions options = {};
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return triplet_margin_with_distance_loss(anchor, positive, negative, distance_function, options);
  }
};
struct SoftMarginLoss {  // target 1 or -1
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return soft_margin_loss(x, target, reduction); }
};
struct MultiMarginLoss {  // x [N, C], target i64 [N]
  MultiMarginOptions options = {};
  Buffer weight = {};  // per class [C], or undefined
  MANTISSA_FIELDS(weight)
  Tensor operator()(const Tensor& x, const Tensor& target) const {
    return multi_margin_loss(x, target, options, weight);
  }
};
struct MultiLabelMarginLoss {  // target i64, shape of x: class indices, terminated by -1
  Reduction reduction = Reduction::mean;
  Tensor operator()(const Tensor& x, const Tensor& target) const {
    return multilabel_margin_loss(x, target, reduction);
  }
};
struct MultiLabelSoftMarginLoss {
  Buffer weight = {};  // per class [C], or undefined
  Reduction reduction = Reduction::mean;
  MANTISSA_FIELDS(weight)
  Tensor operator()(const Tensor& x, const Tensor& target) const {
    return multilabel_soft_margin_loss(x, target, weight, reduction);
  }
};
struct CTCLoss {  // log_probs [T, N, C], targets [N, S] or concatenated, lengths [N]
  CtcOptions options = {};
  Tensor operator()(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
      const Tensor& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
  }
};
struct CosineSimilarity {
  int dim = 1;
  double eps = 1e-8;
  Tensor operator()(const Tensor& x1, const Tensor& x2) const { return cosine_similarity(x1, x2, dim, eps); }
};
struct PairwiseDistance {  // over the last dim
  double p = 2, eps = 1e-6;
  bool keepdim = false;
  Tensor operator()(const Tensor& x1, const Tensor& x2) const { return pairwise_distance(x1, x2, p, eps, keepdim); }
};

}  // namespace mantissa::nn
