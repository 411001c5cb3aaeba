#include "data/metrics.h"

#include <cmath>

namespace mantissa::data {
namespace {

void check_labels(const Tensor& labels, std::int64_t samples, std::int64_t classes, const char* who) {
  check(labels.defined() && labels.dtype() == i64 && labels.dim() == 1 && labels.size(0) == samples, who,
        ": expected i64 labels [", samples, "], got ", labels);
  for (const std::int64_t l : labels.to_vector<std::int64_t>())
    check(l >= 0 && l < classes, who, ": label ", l, " is not below the ", classes, " classes");
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

Accuracy::Accuracy(std::int64_t k) : k_(k) { check(k >= 1, "Accuracy: k must be at least 1, got ", k); }

void Accuracy::add(const Tensor& scores, const Tensor& labels) {
  check(scores.defined() && scores.dim() == 2 && scores.is_floating() && scores.size(1) >= k_,
        "Accuracy: expected floating scores [N, classes] with at least ", k_, " classes, got ", scores);
  const std::int64_t n = scores.size(0), classes = scores.size(1);
  check_labels(labels, n, classes, "Accuracy");
  const std::vector<float> values = scores.detach().to_vector<float>();
  const std::vector<std::int64_t> wanted = labels.to_vector<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i)
    right_ += rank(values.data() + i * classes, classes, wanted[static_cast<std::size_t>(i)]) < k_;
  seen_ += n;
}

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : classes_(classes) {
  check(classes >= 1 && classes <= 100000, "ConfusionMatrix: needs 1 to 100000 classes, got ", classes);
  reset();
}

void ConfusionMatrix::reset() { counts_.assign(static_cast<std::size_t>(classes_ * classes_), 0); }

void ConfusionMatrix::add(const Tensor& predictions, const Tensor& labels) {
  const bool scores = predictions.defined() && predictions.is_floating();
  check(predictions.defined() && (scores ? predictions.dim() == 2 && predictions.size(1) == classes_
                                         : predictions.dtype() == i64 && predictions.dim() == 1),
        "ConfusionMatrix: expected floating scores [N, ", classes_, "] or i64 class numbers [N], got ", predictions);
  const std::int64_t n = predictions.size(0);
  check_labels(labels, n, classes_, "ConfusionMatrix");
  std::vector<std::int64_t> chosen;
  if (scores) {
    const std::vector<float> values = predictions.detach().to_vector<float>();
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t best = 0;
      for (std::int64_t c = 1; c < classes_; ++c)
        if (higher(values[static_cast<std::size_t>(i * classes_ + c)],
                   values[static_cast<std::size_t>(i * classes_ + best)]))
          best = c;
      chosen.push_back(best);
    }
  } else {
    check_labels(predictions, n, classes_, "ConfusionMatrix (predictions)");
    chosen = predictions.to_vector<std::int64_t>();
  }
  const std::vector<std::int64_t> wanted = labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < chosen.size(); ++i) ++counts_[static_cast<std::size_t>(wanted[i] * classes_ + chosen[i])];
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

double ConfusionMatrix::averaged(const std::vector<double>& values, Average average) const {
  if (average == Average::micro) return accuracy();  // each sample is predicted once, so all three are equal
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
