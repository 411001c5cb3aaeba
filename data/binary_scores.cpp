#include "data/binary_scores.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "io/process_group.h"

namespace mantissa::data {
namespace {

Tensor column(const std::vector<double>& v) { return from_data(v, {static_cast<std::int64_t>(v.size())}); }

}  // namespace

void BinaryScores::add(const Tensor& scores, const Tensor& labels) {
  check(scores.defined() && scores.is_floating(), "BinaryScores: expected floating scores, got ", scores);
  check(labels.defined() && labels.sizes() == scores.sizes(), "BinaryScores: expected labels ", scores.sizes(),
        ", as the scores, got ", labels);
  const std::vector<double> score = scores.detach().to_vector<double>(), label = labels.detach().to_vector<double>();
  for (std::size_t i = 0; i < score.size(); ++i) {  // all, before anything is kept
    check(!std::isnan(score[i]), "BinaryScores: score ", i, " is NaN");
    check(label[i] == 0 || label[i] == 1, "BinaryScores: label ", i, " is ", label[i],
          ", not 0 or 1; of several classes, compare: add(scores.select(1, c), labels == c)");
  }
  for (std::size_t i = 0; i < score.size(); ++i) samples_.push_back({score[i], label[i]});
}

void BinaryScores::gather(distributed::ProcessGroup& group) {
  const std::string own(reinterpret_cast<const char*>(samples_.data()), samples_.size() * sizeof(Sample));
  reset();
  for (const std::string& part : group.all_gather(own)) {
    const std::size_t before = samples_.size();
    samples_.resize(before + part.size() / sizeof(Sample));
    if (!part.empty()) std::memcpy(samples_.data() + before, part.data(), part.size());
  }
}

std::vector<BinaryScores::Point> BinaryScores::points() const {
  auto sorted = samples_;
  std::sort(sorted.begin(), sorted.end(), [](const Sample& a, const Sample& b) { return a.score > b.score; });
  std::vector<Point> points;
  double positives = 0, negatives = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    (sorted[i].label == 1 ? positives : negatives) += 1;
    const bool last_of_its_score = i + 1 == sorted.size() || sorted[i + 1].score != sorted[i].score;
    if (last_of_its_score) points.push_back({sorted[i].score, positives, negatives});
  }
  return points;
}

double BinaryScores::roc_auc() const {
  double area = 0, positives = 0, negatives = 0;
  for (const Point& p : points()) {
    area += (p.negatives - negatives) * (p.positives + positives) / 2;
    positives = p.positives;
    negatives = p.negatives;
  }
  return area / (positives * negatives);  // 0 / 0 is NaN
}

double BinaryScores::average_precision() const {
  double sum = 0, positives = 0;
  for (const Point& p : points()) {
    sum += (p.positives - positives) * p.positives / (p.positives + p.negatives);
    positives = p.positives;
  }
  return positives > 0 ? sum / positives : 0;
}

RocCurve BinaryScores::roc_curve() const {
  std::vector<double> fpr{0}, tpr{0}, thresholds{std::numeric_limits<double>::infinity()};
  const std::vector<Point> all = points();
  const Point last = all.empty() ? Point{} : all.back();
  if (last.negatives == 0) fpr[0] = std::nan("");
  if (last.positives == 0) tpr[0] = std::nan("");
  for (const Point& p : all) {
    fpr.push_back(p.negatives / last.negatives);
    tpr.push_back(p.positives / last.positives);
    thresholds.push_back(p.threshold);
  }
  return {column(fpr), column(tpr), column(thresholds)};
}

PrecisionRecallCurve BinaryScores::precision_recall_curve() const {
  std::vector<double> precision, recall, thresholds;
  std::vector<Point> all = points();
  const double positives = all.empty() ? 0 : all.back().positives;
  std::reverse(all.begin(), all.end());
  for (const Point& p : all) {
    precision.push_back(p.positives / (p.positives + p.negatives));
    recall.push_back(positives > 0 ? p.positives / positives : 1);
    thresholds.push_back(p.threshold);
  }
  precision.push_back(1);
  recall.push_back(0);
  return {column(precision), column(recall), column(thresholds)};
}

}  // namespace mantissa::data
