#include "data/metrics.h"

#include <cmath>
#include <optional>

#include "core/ops.h"

namespace mantissa::data {
namespace {

// Of samples i64 [N, ...], such as pixels, in this order; `classes` bounds those that count.
std::vector<std::int64_t> class_numbers(const Tensor& t, const Dims& sizes, std::int64_t classes,
                                        std::optional<std::int64_t> ignored, const char* who) {
  check(t.defined() && t.dtype() == i64 && t.sizes() == sizes, who, ": expected i64 labels ", sizes, ", got ", t);
  std::vector<std::int64_t> numbers = t.to_vector<std::int64_t>();
  for (const std::int64_t l : numbers)
    check((l >= 0 && l < classes) || l == ignored, who, ": label ", l, " is not below the ", classes, " classes");
  return numbers;
}

// The sizes of the labels of scores [N, classes, ...].
Dims without_classes(Dims sizes) {
  sizes.erase(1);
  return sizes;
}
// One row of scores for each sample.
std::vector<float> rows_of_scores(const Tensor& scores) {
  const Tensor x = scores.detach();
  return (x.dim() > 2 ? movedim(x, {1}, {-1}) : x).to_vector<float>();
}

bool higher(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

// The number of scores in a row that rank before that of class c: higher, or equal with a lower index.
std::int64_t rank(const float* row, std::int64_t classes, std::int64_t c) {
  std::int64_t above = 0;
  for (std::int64_t i = 0; i < classes; ++i) above += higher(row[i], row[c]) || (i < c && !higher(row[c], row[i]));
  return above;
}

double ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

void RunningMean::add(double value, double weight) {
  check(weight >= 0, "RunningMean: a weight must not be negative, got ", weight);
  sum_ += value * weight;
  weight_ += weight;
}

Accuracy::Accuracy(std::int64_t k, std::int64_t ignore_index) : k_(k), ignore_index_(ignore_index) {
  check(k >= 1, "Accuracy: k must be at least 1, got ", k);
}

void Accuracy::add(const Tensor& scores, const Tensor& labels) {
  check(scores.defined() && scores.dim() >= 2 && scores.is_floating() && scores.size(1) >= k_,
        "Accuracy: expected floating scores [N, classes, ...] with at least ", k_, " classes, got ", scores);
  const std::int64_t classes = scores.size(1);
  const std::vector<std::int64_t> wanted =
      class_numbers(labels, without_classes(scores.sizes()), classes, ignore_index_, "Accuracy");
  const std::vector<float> values = rows_of_scores(scores);
  const float* row = values.data();
  for (const std::int64_t label : wanted) {
    if (label != ignore_index_) {
      right_ += rank(row, classes, label) < k_;
      ++seen_;
    }
    row += classes;
  }
}

void RegressionErrors::add(const Tensor& predictions, const Tensor& targets) {
  check(predictions.defined() && targets.defined() && predictions.sizes() == targets.sizes(),
        "RegressionErrors: predictions ", predictions, " and targets ", targets, " must have the same shape");
  const std::vector<double> x = predictions.detach().to_vector<double>(), y = targets.detach().to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    absolute_.add(std::abs(x[i] - y[i]));
    squared_.add((x[i] - y[i]) * (x[i] - y[i]));
    // Welford's update: exact also for targets far from 0.
    const double distance = y[i] - mean_;
    mean_ += distance / static_cast<double>(++seen_);
    variation_ += distance * (y[i] - mean_);
  }
}
double RegressionErrors::rmse() const { return std::sqrt(mse()); }
double RegressionErrors::r2() const {
  const double unexplained = mse() * static_cast<double>(seen_);
  if (variation_ > 0) return 1 - unexplained / variation_;
  return unexplained > 0 ? 0 : 1;
}

ConfusionMatrix::ConfusionMatrix(std::int64_t classes, std::int64_t ignore_index)
    : classes_(classes), ignore_index_(ignore_index) {
  check(classes >= 1 && classes <= 100000, "ConfusionMatrix: needs 1 to 100000 classes, got ", classes);
  reset();
}

ConfusionMatrix::ConfusionMatrix(const Tensor& counts)
    : ConfusionMatrix(counts.defined() && counts.dim() == 2 ? counts.size(0) : 0) {
  check(counts.dtype() == i64 && counts.size(1) == classes_,
        "ConfusionMatrix: expected counts i64 [classes, classes], got ", counts);
  counts_ = counts.to_vector<std::int64_t>();
}

void ConfusionMatrix::reset() { counts_.assign(static_cast<std::size_t>(classes_ * classes_), 0); }

void ConfusionMatrix::add(const Tensor& predictions, const Tensor& labels) {
  const bool scores = predictions.defined() && predictions.is_floating();
  check(predictions.defined() && (scores ? predictions.dim() >= 2 && predictions.size(1) == classes_
                                         : predictions.dtype() == i64 && predictions.dim() >= 1),
        "ConfusionMatrix: expected floating scores [N, ", classes_, ", ...] or i64 class numbers [N, ...], got ",
        predictions);
  const Dims sizes = scores ? without_classes(predictions.sizes()) : predictions.sizes();
  const std::vector<std::int64_t> wanted = class_numbers(labels, sizes, classes_, ignore_index_, "ConfusionMatrix");
  std::vector<std::int64_t> chosen;
  if (scores) {
    const std::vector<float> values = rows_of_scores(predictions);
    const float* row = values.data();
    for (std::size_t i = 0; i < wanted.size(); ++i, row += classes_) {
      std::int64_t best = 0;
      for (std::int64_t c = 1; c < classes_; ++c)
        if (higher(row[c], row[best])) best = c;
      chosen.push_back(best);
    }
  } else {
    chosen = class_numbers(predictions, sizes, classes_, {}, "ConfusionMatrix (predictions)");
  }
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (wanted[i] != ignore_index_) ++counts_[static_cast<std::size_t>(wanted[i] * classes_ + chosen[i])];
}

std::int64_t ConfusionMatrix::at(std::int64_t label, std::int64_t predicted) const {
  check(label >= 0 && label < classes_ && predicted >= 0 && predicted < classes_, "ConfusionMatrix: (", label, ", ",
        predicted, ") is not in a matrix of ", classes_, " classes");
  return counts_[static_cast<std::size_t>(label * classes_ + predicted)];
}

Tensor ConfusionMatrix::matrix() const { return from_data<std::int64_t>(counts_, {classes_, classes_}); }

std::int64_t ConfusionMatrix::predicted(std::int64_t c) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < classes_; ++i) sum += at(i, c);
  return sum;
}
std::int64_t ConfusionMatrix::actual(std::int64_t c) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < classes_; ++i) sum += at(c, i);
  return sum;
}

double ConfusionMatrix::accuracy() const {
  std::int64_t right = 0, all = 0;
  for (std::int64_t c = 0; c < classes_; ++c) right += at(c, c), all += actual(c);
  return ratio(right, all);
}

std::vector<double> ConfusionMatrix::precision() const {
  std::vector<double> v;
  for (std::int64_t c = 0; c < classes_; ++c) v.push_back(ratio(at(c, c), predicted(c)));
  return v;
}
std::vector<double> ConfusionMatrix::recall() const {
  std::vector<double> v;
  for (std::int64_t c = 0; c < classes_; ++c) v.push_back(ratio(at(c, c), actual(c)));
  return v;
}
std::vector<double> ConfusionMatrix::f1() const {
  std::vector<double> v;
  for (std::int64_t c = 0; c < classes_; ++c) v.push_back(ratio(2 * at(c, c), predicted(c) + actual(c)));
  return v;
}

std::vector<double> ConfusionMatrix::iou() const {
  std::vector<double> v;
  for (std::int64_t c = 0; c < classes_; ++c) v.push_back(ratio(at(c, c), predicted(c) + actual(c) - at(c, c)));
  return v;
}
double ConfusionMatrix::iou(Average average) const {
  // Each sample that is not right counts for two classes.
  if (const double right = accuracy(); average == Average::micro) return right / (2 - right);
  return averaged(iou(), average);
}

double ConfusionMatrix::averaged(const std::vector<double>& values, Average average) const {
  // Each sample is predicted once, so micro-averaged precision, recall and F1 are equal.
  if (average == Average::micro) return accuracy();
  double sum = 0, weights = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const auto samples = static_cast<double>(actual(c));
    // As scikit-learn: classes that neither occur nor are predicted are excluded.
    const double weight = average == Average::weighted ? samples : samples > 0 || predicted(c) > 0 ? 1 : 0;
    sum += weight * values[static_cast<std::size_t>(c)];
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

}  // namespace mantissa::data
