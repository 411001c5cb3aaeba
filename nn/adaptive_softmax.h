// AdaptiveLogSoftmaxWithLoss (Grave et al., 2017), for many classes of which few are frequent: a head scores the first
// cutoffs[0] classes plus one entry per cluster of rarer classes; each cluster has its own pair of narrower layers.
// Same as torch.nn's, with its parameter names (head.weight, tail.0.0.weight, tail.0.1.weight, ...).
//   nn::AdaptiveLogSoftmaxWithLoss softmax{512, 50000, {2000, 10000}};
//   softmax(x, target).loss.backward();
#pragma once

#include <vector>

#include "nn/linear.h"
#include "nn/sequential.h"

namespace mantissa::nn {

struct AdaptiveLogSoftmaxOptions {
  double div_value = 4;  // each cluster's hidden size is this many times smaller than the previous one's
  bool head_bias = false;
};
struct AdaptiveLogSoftmaxResult {
  Tensor output;  // log-probability of each target, [N] or []
  Tensor loss;    // the mean of -output
};

class AdaptiveLogSoftmaxWithLoss {
 public:
  // Classes must be sorted by descending frequency; cutoffs ascend, from >= 1 to < n_classes.
  AdaptiveLogSoftmaxWithLoss(std::int64_t in_features, std::int64_t n_classes, std::vector<std::int64_t> cutoffs,
                             const AdaptiveLogSoftmaxOptions& o = {});
  // x [N, in] or [in], target i64 [N] or []
  AdaptiveLogSoftmaxResult operator()(const Tensor& x, const Tensor& target) const;
  Tensor log_prob(const Tensor& x) const;  // of all classes, [N, n_classes]
  Tensor predict(const Tensor& x) const;   // the most probable class, i64 [N]

  Linear head;
  std::vector<Sequential> tail;
  std::vector<std::int64_t> cutoffs;  // with n_classes appended
  MANTISSA_FIELDS(head, tail)
  AdaptiveLogSoftmaxWithLoss clone() const;

 private:
  explicit AdaptiveLogSoftmaxWithLoss(Linear h) : head(std::move(h)) {}
  void check_input(const Tensor& x) const;
};

}  // namespace mantissa::nn
