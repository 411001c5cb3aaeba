// Metrics accumulated over batches. Values are exact: counts are integers, sums are f64. Names and averages follow
// scikit-learn; a class without samples counts as 0, as there.
//
//   data::Accuracy top1, top5(5);
//   data::ConfusionMatrix matrix(10);
//   for (auto [image, label] : test) { const Tensor y = net(image); top1.add(y, label); matrix.add(y, label); }
//   matrix.f1(data::Average::macro);
//
// Areas below ROC and precision-recall curves: data/binary_scores.h. Of object detection: data/average_precision.h.
//
// Samples may also be pixels, as in segmentation: scores [N, classes, H, W] and labels i64 [N, H, W], of which those
// with `ignore_index` do not count, as in cross_entropy.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace mantissa::data {

// The mean of numbers, such as losses, weighted by the number of samples each stands for.
class RunningMean {
 public:
  void add(double value, double weight = 1);
  double value() const { return weight_ > 0 ? sum_ / weight_ : 0; }
  double weight() const { return weight_; }
  void reset() { *this = {}; }

 private:
  double sum_ = 0, weight_ = 0;
};

// Top-k accuracy: the fraction of samples whose label is among the k highest scores. Ties go to the lower class index;
// a NaN score is lower than any number.
class Accuracy {
 public:
  explicit Accuracy(std::int64_t k = 1, std::int64_t ignore_index = -100);
  // scores: floating [N, classes, ...]; labels i64 [N, ...]. Error if they do not match or a label is not below
  // `classes`.
  void add(const Tensor& scores, const Tensor& labels);
  double value() const { return seen_ > 0 ? static_cast<double>(right_) / static_cast<double>(seen_) : 0; }
  std::int64_t seen() const { return seen_; }
  void reset() { right_ = seen_ = 0; }

 private:
  std::int64_t k_, ignore_index_, right_ = 0, seen_ = 0;
};

// How far predictions are from their targets: mean absolute and mean squared error, its root, and the part of the
// targets' variance that is explained (R2, the coefficient of determination; 1 is perfect, 0 is as good as their mean;
// of constant targets 1 if all are met, else 0).
class RegressionErrors {
 public:
  void add(const Tensor& predictions, const Tensor& targets);  // of the same shape; every element is a sample
  double mae() const { return absolute_.value(); }
  double mse() const { return squared_.value(); }
  double rmse() const;
  double r2() const;
  std::int64_t seen() const { return seen_; }
  void reset() { *this = {}; }

 private:
  RunningMean absolute_, squared_;
  std::int64_t seen_ = 0;
  double mean_ = 0, variation_ = 0;  // of the targets; variation: the sum of their squared distances from the mean
};

// micro: over all samples; macro: the mean over classes; weighted: the mean weighted by each class's number of samples.
enum class Average { micro, macro, weighted };

// Rows: labels; columns: predictions.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes, std::int64_t ignore_index = -100);
  // Of the counts of a matrix(), such as those of all processes: world.all_reduce(counts).
  explicit ConfusionMatrix(const Tensor& counts);
  // predictions: scores [N, classes, ...], floating, or class indices i64 [N, ...]; labels i64 [N, ...].
  void add(const Tensor& predictions, const Tensor& labels);
  void reset();

  std::int64_t classes() const { return classes_; }
  std::int64_t at(std::int64_t label, std::int64_t predicted) const;
  Tensor matrix() const;  // i64 [classes, classes]
  double accuracy() const;
  std::vector<double> precision() const;  // per class: correct among those predicted
  std::vector<double> recall() const;     // per class: correct among those labelled
  std::vector<double> f1() const;         // per class: harmonic mean of the two; Dice's coefficient
  std::vector<double> iou() const;        // per class: correct among those labelled or predicted; Jaccard's index
  double precision(Average average) const { return averaged(precision(), average); }
  double recall(Average average) const { return averaged(recall(), average); }
  double f1(Average average) const { return averaged(f1(), average); }
  double iou(Average average) const;  // macro: the mean over the classes that occur, mIoU

 private:
  double averaged(const std::vector<double>& values, Average average) const;
  std::int64_t predicted(std::int64_t c) const;  // column sum (predicted) and row sum
  std::int64_t actual(std::int64_t c) const;

  std::int64_t classes_, ignore_index_;
  std::vector<std::int64_t> counts_;
};

}  // namespace mantissa::data
