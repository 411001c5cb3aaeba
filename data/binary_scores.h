// How well scores separate two classes, whatever the threshold: ROC and precision-recall curves and the areas below
// them. Accumulated over batches, exact, in f64; values and names are scikit-learn's (roc_auc_score, roc_curve,
// average_precision_score, precision_recall_curve with drop_intermediate=False).
//
//   data::BinaryScores scores;
//   for (auto [x, label] : test) scores.add(net(x).squeeze(1), label);    // logits or probabilities alike
//   fmt::print("AUC {:.3f}\n", scores.roc_auc());
//
// Of several classes, one against the rest: scores[c].add(y.select(1, c), label == c).
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace mantissa::distributed {
class ProcessGroup;
}

namespace mantissa::data {

struct RocCurve {
  Tensor false_positive_rate, true_positive_rate, thresholds;  // f64 [points]; the first threshold is infinity
};
struct PrecisionRecallCurve {
  Tensor precision, recall;  // f64 [points + 1]; the last are 1 and 0
  Tensor thresholds;         // f64 [points], ascending
};

class BinaryScores {
 public:
  // scores: floating, of any shape; labels: of the same shape, boolean, or 0 and 1 in any dtype. Error for a NaN score
  // or another label.
  void add(const Tensor& scores, const Tensor& labels);
  // Adds what those of all other ranks have seen: afterwards all are the same. Every rank must call it, once.
  void gather(distributed::ProcessGroup& group);
  void reset() { samples_.clear(); }
  std::int64_t seen() const { return static_cast<std::int64_t>(samples_.size()); }

  // The probability that a positive sample scores higher than a negative one, ties counting half. NaN if either class
  // has no samples.
  double roc_auc() const;
  // The mean precision at each positive sample, by descending score; 0 without positive samples.
  double average_precision() const;
  // One point per different score. Rates of a class without samples are NaN; recall without positive samples is 1.
  RocCurve roc_curve() const;
  PrecisionRecallCurve precision_recall_curve() const;

 private:
  struct Point {  // how many samples of each class score at least the threshold
    double threshold, positives, negatives;
  };
  std::vector<Point> points() const;  // by descending threshold

  struct Sample {
    double score, label;  // 0 or 1
  };
  std::vector<Sample> samples_;
};

}  // namespace mantissa::data
