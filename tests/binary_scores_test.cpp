// ROC and precision-recall curves, and errors of regression, against scikit-learn (tests/golden/binary_scores.py).
#include "data/binary_scores.h"

#include <cmath>

#include "data/metrics.h"
#include "tests/golden/golden.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

void check_same(const Tensor& found, const Tensor& expected) {
  REQUIRE(found.sizes() == expected.sizes());
  CHECK(allclose(found, expected, 1e-12, 1e-12));
}

}  // namespace

TEST_CASE("curves and the areas below them are scikit-learn's, whatever the batches") {
  const Golden golden("binary_scores");
  const Tensor scores = golden.find("scores"), labels = golden.find("labels");
  const auto areas = golden.find("areas").to_vector<double>();
  for (const std::int64_t batch : {300, 7}) {
    data::BinaryScores s;
    for (std::int64_t i = 0; i < 300; i += batch)
      s.add(scores.slice(0, i, i + batch), labels.slice(0, i, i + batch));
    CHECK(s.seen() == 300);
    CHECK(s.roc_auc() == Approx(areas[0]).epsilon(1e-12));
    CHECK(s.average_precision() == Approx(areas[1]).epsilon(1e-12));
    const auto [fpr, tpr, roc_thresholds] = s.roc_curve();
    check_same(fpr, golden.find("fpr"));
    check_same(tpr, golden.find("tpr"));
    check_same(roc_thresholds, golden.find("roc thresholds"));
    const auto [precision, recall, thresholds] = s.precision_recall_curve();
    check_same(precision, golden.find("precision"));
    check_same(recall, golden.find("recall"));
    check_same(thresholds, golden.find("thresholds"));
  }
}

TEST_CASE("areas depend on the order of the scores alone") {
  const Golden golden("binary_scores");
  const Tensor scores = golden.find("scores"), labels = golden.find("labels");
  data::BinaryScores logits, probabilities, opposite;
  logits.add(scores, labels == 1);
  probabilities.add(sigmoid(scores.to(f64)).view(3, 100), labels.to(f32).view(3, 100));
  opposite.add(-scores, labels);
  CHECK(probabilities.roc_auc() == logits.roc_auc());
  CHECK(probabilities.average_precision() == logits.average_precision());
  CHECK(opposite.roc_auc() == Approx(1 - logits.roc_auc()).epsilon(1e-12));
}

TEST_CASE("one class alone, nothing, and what is no score or label") {
  data::BinaryScores s;
  CHECK(std::isnan(s.roc_auc()));
  CHECK(s.average_precision() == 0);
  CHECK(s.precision_recall_curve().precision.numel() == 1);
  s.add(tensor({0.5, 0.7}), ones({2}));
  CHECK(std::isnan(s.roc_auc()));
  CHECK(s.average_precision() == 1);
  CHECK(all(isnan(s.roc_curve().false_positive_rate)));
  CHECK_THROWS_WITH(s.add(tensor({0.1, NAN}), zeros({2})), Contains("score 1 is NaN"));
  CHECK_THROWS_WITH(s.add(tensor({0.1, 0.2}), tensor({0, 2})), Contains("label 1 is 2, not 0 or 1"));
  CHECK_THROWS_WITH(s.add(zeros({2}), zeros({2, 1})), Contains("expected labels [2]"));
  CHECK_THROWS_WITH(s.add(tensor({1, 2}), zeros({2})), Contains("expected floating scores"));
  CHECK(s.seen() == 2);  // what is refused is not counted in part
  s.reset();
  CHECK(s.seen() == 0);
}

TEST_CASE("errors of regression are scikit-learn's, whatever the batches") {
  const Golden golden("binary_scores");
  const Tensor predictions = golden.find("predictions"), targets = golden.find("targets");
  const auto expected = golden.find("errors").to_vector<double>();
  data::RegressionErrors errors;
  CHECK(errors.mse() == 0);
  for (std::int64_t i = 0; i < 200; i += 60)
    errors.add(predictions.slice(0, i, std::min<std::int64_t>(i + 60, 200)) + 1000,
               targets.slice(0, i, std::min<std::int64_t>(i + 60, 200)) + 1000);
  CHECK(errors.seen() == 200);
  CHECK(errors.mae() == Approx(expected[0]).epsilon(1e-4));  // f32 at 1000
  CHECK(errors.mse() == Approx(expected[1]).epsilon(1e-4));
  CHECK(errors.rmse() == Approx(std::sqrt(expected[1])).epsilon(1e-4));
  CHECK(errors.r2() == Approx(expected[2]).epsilon(1e-4));
  errors.reset();
  errors.add(predictions, targets);
  CHECK(errors.mae() == Approx(expected[0]).epsilon(1e-12));
  CHECK(errors.mse() == Approx(expected[1]).epsilon(1e-12));
  CHECK(errors.r2() == Approx(expected[2]).epsilon(1e-12));
  CHECK_THROWS_WITH(errors.add(zeros({2}), zeros({2, 1})), Contains("predictions f32[2] and targets f32[2, 1]"));
  data::RegressionErrors constant;
  constant.add(tensor({1.0, 1.0}), tensor({1.0, 1.0}));
  CHECK(constant.r2() == 1);
}
