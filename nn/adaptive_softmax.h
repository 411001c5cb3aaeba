// AdaptiveLogSoftmaxWithLoss (Grave et al., 2017), for many classes of which few are frequent: a head for the
// first cutoffs[0] classes and one entry per cluster of rarer ones, and a narrower pair of layers for each
// cluster. As torch.nn's, with its names (head.weight, tail.0.0.weight, tail.0.1.weight, ...).
//   nn::AdaptiveLogSoftmaxWithLoss softmax{512, 50000, {2000, 10000}};
//   softmax(x, target).loss.backward();
#pragma once

#include <vector>

#include "nn/linear.h"
#include "nn/sequential.h"

namespace mantissa::nn {

struct AdaptiveLogSoftmaxOptions {
  double div_value = 4;  // how many times narrower each cluster is than the one before
  bool head_bias = false;
};
struct AdaptiveLogSoftmaxResult {
  Tensor output;  // the log probability of each target, [N] or []
  Tensor loss;    // minus their mean
};

class AdaptiveLogSoftmaxWithLoss {
 public:
  // Classes are sorted by falling frequency. cutoffs rise, from at least 1 to below n_classes.
  AdaptiveLogSoftmaxWithLoss(std::int64_t in_features, std::int64_t n_classes, std::vector<std::int64_t> cutoffs,
                             const AdaptiveLogSoftmaxOptions& o = {});
  // x [N, in] or [in], target i64 [N] or []
  AdaptiveLogSoftmaxResult operator()(const Tensor& x, const Tensor& target) const;
  Tensor log_prob(const Tensor& x) const;  // of all classes, [N, n_classes]
  Tensor predict(const Tensor& x) const;   // the likeliest class, i64 [N]

  Linear head;
  std::vector<Sequential> tail;
  std::vector<std::int64_t> cutoffs;  // n_classes at the end
  MANTISSA_FIELDS(head, tail)
  AdaptiveLogSoftmaxWithLoss clone() const;

 private:
  explicit AdaptiveLogSoftmaxWithLoss(Linear h) : head(std::move(h)) {}
  void check_input(const Tensor& x) const;
};

}  // namespace mantissa::nn
