// Losses as objects that carry their options; cross_entropy, nll_loss and mse_loss of core/ops.h are
// the functions. nn::CrossEntropyLoss loss{{.label_smoothing = 0.1}};
#pragma once

#include "core/ops.h"
#include "nn/fields.h"

namespace mantissa::nn {

struct CrossEntropyLoss {  // logits [N, C, ...], target i64 [N, ...]
  CrossEntropyOptions options = {};
  Buffer weight = {};  // per class [C], or undefined
  MANTISSA_FIELDS(weight)
  Tensor operator()(const Tensor& logits, const Tensor& target) const { return cross_entropy(logits, target, options, weight); }
};
struct NLLLoss {  // log probabilities [N, C, ...], target i64 [N, ...]
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

}  // namespace mantissa::nn
