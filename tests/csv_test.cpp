// CSV tables and metrics.
#include "data/csv.h"

#include <cmath>
#include <random>

#include "catch_compat.h"
#include "data/metrics.h"
#include "data/pipeline.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::Dataset;

namespace {

Dataset read(const std::string& text, const data::CsvOptions& o = {}) {
  const TempDir dir;
  put_file(dir / "t.csv", text);
  return data::read_csv(dir / "t.csv", o);
}
void refuses(const std::string& text, const std::string& fragment, const data::CsvOptions& o = {}) {
  const std::string message = message_of([&] { read(text, o); });
  INFO(text);
  CHECK_THAT(message, Contains("t.csv: ") && Contains(fragment));
}

}  // namespace

TEST_CASE("csv: numbers, a label column, quotes, line endings and a byte order mark") {
  const Dataset set =
      read("\xef\xbb\xbfwidth,\"the \"\"name\"\"\",height\r\n1.5,cat, -2e1\r\n\r\n+3,\"dog, big\",4\r\n0,cat,7",
           {.label = "the \"name\""});
  CHECK(set.images.sizes() == Dims{3, 2});
  CHECK(set.images.to_vector<double>() == std::vector<double>{1.5, -20, 3, 4, 0, 7});
  CHECK(set.labels.to_vector<int>() == std::vector<int>{0, 1, 0});
  CHECK(set.class_names == std::vector<std::string>{"cat", "dog, big"});
  CHECK(set.mean[0] == 1.5f);
  CHECK(std::abs(set.std[0] - std::sqrt(1.5f)) < 1e-6f);
  // each column has mean 0
  for (auto [row, label] : data::Pipeline(set).batch(3)) CHECK(std::abs(row.sum().item()) < 1e-5);

  const Dataset plain = read("1;2;10\n3;4;9\n5;6;10\n", {.separator = ';', .header = false});
  CHECK(plain.images.sizes() == Dims{3, 2});
  CHECK(plain.class_names == std::vector<std::string>{"9", "10"});  // by value
  CHECK(plain.labels.to_vector<int>() == std::vector<int>{1, 0, 1});
}

TEST_CASE("csv: regression, missing values, columns to ignore, a line break in a field") {
  const Dataset set = read("id,x,y\n\"a\nb\",1,0.5\nc,,2\n", {.regression = true, .missing = true, .ignore = {"id"}});
  CHECK(set.labels.dtype() == f32);
  CHECK(set.labels.to_vector<double>() == std::vector<double>{0.5, 2});
  CHECK(std::isnan(set.images.to_vector<double>()[1]));
  CHECK((set.mean[0] == 1 && set.std[0] == 1));
  for (auto [row, label] : data::Pipeline(set).batch(2)) CHECK((label.dtype() == f32 && row.sizes() == Dims{2, 1}));
}

TEST_CASE("csv: labels that are numbers but for one are names") {
  const Dataset set = read("x,label\n1,10\n2,nan\n3,9\n", {.label = "label"});
  CHECK(set.class_names == std::vector<std::string>{"10", "9", "nan"});
  CHECK(set.labels.to_vector<int>() == std::vector<int>{0, 2, 1});
}

TEST_CASE("csv: every mistake names its line") {
  refuses("a,b\n1,2\n3\n", "line 3: has 1 fields, the header has 2");
  refuses("a,b\n1,2\n\n\"x\ny\",2\n", "line 4, column \"a\": expected a number, got \"x\\x0ay\"");
  refuses("a,b\n1,2\n,2\n", "line 3, column \"a\": expected a number, got \"\"");
  refuses("a,b\n1,\n", "line 2, column \"b\": the label is missing");
  refuses("a,b\n1,\"2\n3\n", "line 2: the quote that begins here is never closed");
  refuses("a,b\n1,2\"3\n", "line 2: a quote inside a field");
  refuses("a,b\n1,\"2\"3\n", "line 2: a quoted field is followed by more text");
  refuses("a,a\n1,2\n", "line 1: two columns are called \"a\"");
  refuses("a,b\n", "has no rows");
  refuses("", "has no rows");
  refuses("a,b\n1,2\n", "there is no column \"c\"; the columns are \"a\", \"b\"", {.label = "c"});
  refuses("a\n1\n", "no column is left beside the label");
  refuses(std::string("a,b\n1,2\0\n", 9), "line 2: a NUL byte");
  refuses("<!DOCTYPE html><html>", "looks like an HTML page");
  refuses("a,b\n1,x\n", "expected a number", {.regression = true});
}

TEST_CASE("csv: three thousand mutations give a table or a FormatError") {
  INFO("MANTISSA_TEST_SEED=" << test::seed());
  std::mt19937_64 random(test::seed());
  const TempDir dir;
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string bytes = "a,\"b\",c\n1,2,x\n3,\"4\",\"y,\"\"z\"\n5,6,x\n";
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits)
      bytes[random() % bytes.size()] = ",\"\n\r x1\0-."[random() % 10];
    put_file(dir / "m", bytes);
    try {
      const Dataset set = data::read_csv(dir / "m");
      REQUIRE(set.size() >= 1);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("metrics: accuracy, top-k, ties and NaN") {
  data::Accuracy one, two(2);
  const Tensor scores = tensor({{0.1, 0.7, 0.2}, {0.5, 0.2, 0.3}, {1.0, 1.0, 0.0}, {0.0, 0.0, 3.0}});
  const Tensor labels = tensor({2, 0, 1, 2});
  one.add(scores, labels);
  two.add(scores, labels);
  CHECK(one.value() == 0.5);  // in the tie the first class counts as higher
  CHECK(two.value() == 1.0);
  data::Accuracy nan;
  nan.add(tensor({{NAN, 0.5}, {NAN, NAN}}), tensor({0, 0}));
  CHECK(nan.value() == 0.5);
  CHECK_THROWS_WITH(one.add(scores, tensor({0, 0, 0, 3})), Contains("label 3 is not below the 3 classes"));
  CHECK_THROWS_WITH(one.add(scores, tensor({0, 0})), Contains("expected i64 labels [4]"));
  CHECK_THROWS_WITH(data::Accuracy(4).add(scores, labels), Contains("at least 4 classes, got f32[4, 3]"));
  data::RunningMean mean;
  mean.add(2, 3);
  mean.add(4);
  CHECK(mean.value() == 2.5);
}

TEST_CASE("metrics: confusion matrix, precision, recall and F1 as scikit-learn gives them") {
  data::ConfusionMatrix m(4);  // class 3 neither occurs nor is predicted
  m.add(tensor({0, 0, 1, 1, 2, 0}), tensor({0, 0, 0, 1, 1, 2}));
  CHECK(m.at(0, 0) == 2);
  CHECK(m.at(1, 2) == 1);
  CHECK(m.matrix().sizes() == Dims{4, 4});
  CHECK(m.accuracy() == 0.5);
  CHECK(m.precision() == std::vector<double>{2.0 / 3, 0.5, 0, 0});
  CHECK(m.recall() == std::vector<double>{2.0 / 3, 0.5, 0, 0});
  CHECK(std::abs(m.f1(data::Average::macro) - (2.0 / 3 + 0.5) / 3) < 1e-12);
  CHECK(std::abs(m.f1(data::Average::weighted) - (3 * 2.0 / 3 + 2 * 0.5) / 6) < 1e-12);
  CHECK(m.f1(data::Average::micro) == 0.5);
  m.reset();
  m.add(tensor({{0.0, 1.0, 0.0, 0.0}}), tensor({1}));
  CHECK(m.accuracy() == 1);
  CHECK_THROWS_WITH(m.add(tensor({4}), tensor({1})), Contains("label 4 is not below the 4 classes"));
}
