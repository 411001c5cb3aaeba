// Boxes and points go where their pixels go, whatever moves them; and mean average precision.
#include "data/box_targets.h"

#include <cmath>
#include <functional>

#include "core/operators.h"
#include "core/ops.h"
#include "core/random.h"
#include "data/average_precision.h"
#include "data/binary_scores.h"
#include "data/pipeline.h"
#include "nn/boxes.h"
#include "ranks.h"
#include "tests/golden/golden.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using P = data::Pipeline;

namespace {

constexpr std::int64_t side = 60, objects = 3, columns = 6;

// Pictures [N, 3, 60, 60] with up to three rectangles, each in a channel of its own, of which the boxes are the target;
// a column more holds a number that must stay.
data::Dataset rectangles(std::int64_t n = 12, data::Targets kind = data::Targets::boxes) {
  manual_seed(test::seed());
  data::Dataset set{.images = zeros({n, objects, side, side}, {.dtype = u8}),
                    .labels = zeros({n, objects, columns}),
                    .classes = objects,
                    .targets = kind};
  const Tensor numbers = randint(0, side - 20, {n, objects, 2}), sizes = randint(8, 20, {n, objects, 2});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t o = 0; o < objects; ++o) {
      const auto number = [&](const Tensor& t, std::int64_t k) {
        return t.data<std::int64_t>()[(i * objects + o) * 2 + k];
      };
      float* row = set.labels.data<float>() + (i * objects + o) * columns;
      if (i % 4 == 3 && o == 1) {
        row[4] = -1;
        continue;
      }
      const std::int64_t x = number(numbers, 0), y = number(numbers, 1), w = number(sizes, 0), h = number(sizes, 1);
      set.images[i][o].slice(0, y, y + h).slice(1, x, x + w).fill_(255);
      const std::int64_t values[columns] = {x, y, x + w, y + h, o, 10 * i + o};
      std::copy_n(values, columns, row);
      if (kind == data::Targets::points) {  // the centre
        const float point[4] = {static_cast<float>(x) + static_cast<float>(w) / 2,
                                static_cast<float>(y) + static_cast<float>(h) / 2, 1, 0};
        std::copy_n(point, 4, row);
      }
    }
  return set;
}

using Steps = std::function<P(P)>;
const std::vector<std::pair<const char*, Steps>> steps{
    {"random_flip", [](P p) { return p.random_flip(); }},
    {"random_vertical_flip", [](P p) { return p.random_vertical_flip(); }},
    {"random_crop(9)", [](P p) { return p.random_crop(9); }},
    {"random_crop", [](P p) { return p.random_crop({.height = 49, .width = 41, .padding = 5}); }},
    {"pad", [](P p) { return p.pad({.left = 3, .top = 7, .right = 11, .bottom = 1}); }},
    {"random_rotation", [](P p) { return p.random_rotation(40); }},
    {"random_affine",
     [](P p) {
       return p.random_affine({.degrees = 20, .translate = {0.2f, 0.1f}, .scale = {0.7f, 1.3f}, .shear_x = {-9, 9}});
     }},
    {"random_perspective", [](P p) { return p.random_perspective({.distortion_scale = 0.3f, .p = 0.8f}); }},
    {"random_elastic", [](P p) { return p.random_elastic({.alpha = 40, .sigma = 4}); }},
    {"resize", [](P p) { return p.resize(90, 50); }},
    {"random_resize", [](P p) { return p.random_resize(40, 90); }},
    {"random_shorter_side",
     [](P p) {
       return p.random_shorter_side({41, 83});
     }},
    {"scale_jitter",
     [](P p) {
       return p.scale_jitter(64, 70, {0.8f, 1.5f});
     }},
    {"random_resized_crop",
     [](P p) {
       return p.random_resized_crop(57, {.scale = {0.5f, 1}});
     }},
    {"center_crop", [](P p) { return p.random_flip().center_crop(70, 39); }},
    {"random_zoom_out",
     [](P p) {
       return p.random_zoom_out({.range = {1, 1.8f}, .p = 0.7f});
     }},
    {"random_apply",
     [](P p) { return p.random_apply([](P q) { return q.random_rotation(30).random_invert(0); }, 0.5f); }},
    {"random_choice",
     [](P p) {
       return p.random_choice({[](P q) { return q.random_flip(); }, [](P q) { return q.random_crop(4); }});
     }},
    {"random_order",
     [](P p) {
       return p.random_order({[](P q) { return q.random_flip(); }, [](P q) { return q.random_crop(4); }});
     }},
    {"two",
     [](P p) {
       return p.random_crop(4).color_jitter({}).random_zoom_out({.range = {1, 1.2f}}).random_flip();
     }},
};

// Calls f(image [3, H, W] as parts of white, target [3, 6]) for each sample.
template <class F> void each(const data::Dataset& set, const Steps& s, F f) {
  for (auto [image, target] : s(P(set).raw().batch(4).seed(test::seed())).epochs(2)) {
    REQUIRE(image.dtype() == u8);
    REQUIRE(target.sizes() == Dims{image.size(0), objects, columns});
    for (std::int64_t i = 0; i < image.size(0); ++i) f(image[i].to(f32) / 255, target[i]);
  }
}

}  // namespace

TEST_CASE("boxes lie around their pixels, whatever moves them") {
  for (const auto& [name, s] : steps) {
    INFO(name << ", seed " << test::seed());
    std::int64_t there = 0, gone = 0;
    const data::Dataset set = rectangles();
    each(set, s, [&](const Tensor& image, const Tensor& target) {
      for (std::int64_t o = 0; o < objects; ++o) {
        const Tensor shown = image[o] > 0.5;
        const auto row = target[o].to_vector<float>();
        if (row[4] < 0) {
          CHECK((row[0] == 0 && row[2] == 0));
          CHECK(shown.sum().item<std::int64_t>() <= (row[5] > 0 ? 2 * side : 0));  // less than a pixel of it remains
          gone += row[5] > 0;
          continue;
        }
        ++there;
        CHECK(row[4] == static_cast<float>(o));
        CHECK(static_cast<std::int64_t>(row[5]) % 10 == o);
        CHECK((row[0] >= 0 && row[1] >= 0 && row[2] <= static_cast<float>(image.size(2)) &&
               row[3] <= static_cast<float>(image.size(1))));
        if (shown.sum().item<std::int64_t>() == 0) continue;  // a corner of less than a pixel
        const auto seen = nn::masks_to_boxes(shown.unsqueeze(0))[0].to_vector<float>();
        const float width = static_cast<float>(image.size(2)), height = static_cast<float>(image.size(1));
        // Of a corner that the border cuts off, what is thinner than a pixel is not to be seen.
        const bool whole = row[0] > 0 && row[1] > 0 && row[2] < width && row[3] < height;
        const float least = -1.6f, most = whole ? 2.1f : 9;
        const float around[4] = {seen[0] - row[0], seen[1] - row[1], row[2] - (seen[2] + 1), row[3] - (seen[3] + 1)};
        for (const float distance : around) {
          CHECK(distance >= least);
          CHECK(distance <= most);
        }
      }
    });
    CHECK(there > 30);
    CHECK(gone < 30);
  }
}

TEST_CASE("points lie on their pixels, whatever moves them") {
  for (const auto& [name, s] : steps) {
    INFO(name << ", seed " << test::seed());
    std::int64_t there = 0;
    each(rectangles(12, data::Targets::points), s, [&](const Tensor& image, const Tensor& target) {
      for (std::int64_t o = 0; o < objects; ++o) {
        const auto row = target[o].to_vector<float>();
        if (row[2] == 0) continue;
        ++there;
        const auto x = static_cast<std::int64_t>(row[0]), y = static_cast<std::int64_t>(row[1]);
        REQUIRE((x >= 0 && y >= 0 && x < image.size(2) && y < image.size(1)));
        CHECK(image[o][y][x].item() > 0.05);  // little at the border of what was filled
      }
    });
    CHECK(there > 30);
  }
}

TEST_CASE("random_iou_crop keeps what has its centre in the window") {
  const data::Dataset set = rectangles(24);
  std::int64_t there = 0, gone = 0;
  for (auto [image, target] : P(set).raw().random_iou_crop(48, 52).batch(8).seed(test::seed()).epochs(3)) {
    INFO("seed " << test::seed());
    REQUIRE(image.sizes() == Dims{8, objects, 48, 52});
    for (std::int64_t i = 0; i < 8; ++i) {
      bool any = false;
      for (std::int64_t o = 0; o < objects; ++o) {
        const auto row = target[i][o].to_vector<float>();
        const Tensor shown = image[i][o].to(f32) > 127;
        if (row[4] < 0) {
          ++gone;
          continue;
        }
        any = true;
        ++there;
        const auto seen = nn::masks_to_boxes(shown.unsqueeze(0))[0].to_vector<float>();
        CHECK(std::abs(row[0] - seen[0]) <= 2.1f);
        CHECK(std::abs(row[3] - (seen[3] + 1)) <= 2.1f);
      }
      CHECK(any);
    }
  }
  CHECK(there > 60);
  CHECK(gone > 6);
}

TEST_CASE("steps that cannot move boxes say so") {
  const data::Dataset set = rectangles();
  const auto first = [](const P& p) {
    data::Loader loader = p.batch(2).loader();
    data::Batch batch;
    loader.next(batch);
  };
  CHECK_THROWS_WITH(first(P(set).rand_augment()), Contains("rand_augment: moves pixels") && Contains("targets"));
  CHECK_THROWS_WITH(first(P(set).move(0, [](const Tensor& x, data::Draws&, int) { return x; })),
                    Contains("must take a Motions*"));
  CHECK_THROWS_WITH(first(P(set).move(0, [](const Tensor& x, data::Draws&, int, data::Motions*) { return x; })),
                    Contains("move: the function told 0 motions of 2 images"));
  data::Dataset plain = set;
  plain.targets = data::Targets::values;
  CHECK_THROWS_WITH(P(plain).random_iou_crop(9, 9), Contains("targets must be boxes"));
  data::Dataset wrong = set;
  wrong.labels = zeros({12, 4});
  CHECK_THROWS_WITH(P(wrong), Contains("boxes must be f32 [N, M, 5 or more]") && Contains("got f32[12, 4]"));
  wrong.targets = data::Targets::points;
  CHECK_THROWS_WITH(P(wrong), Contains("points must be"));
  CHECK_THROWS_WITH(first(P(set).random_zoom_out({.range = {0.5f, 2}})), Contains("random_zoom_out: range"));
  CHECK_THROWS_WITH(first(P(set).random_iou_crop(9, 9, {.overlaps = {}})), Contains("0 overlaps"));
  // Values that only look like boxes stay.
  for (auto [image, target] : P(plain).random_flip(1).batch(12)) CHECK(equal(target, set.labels));
}

TEST_CASE("a subset and both splits of boxes are boxes") {
  const auto [a, b] = P(rectangles()).raw().random_split({0.5, 0.5}, 1);
  for (const P& p : {a, b, P(rectangles()).subset({1, 2})}) {
    CHECK(p.info().targets == data::Targets::boxes);
    for (auto [image, target] : p.random_vertical_flip(1).batch(1))
      for (std::int64_t o = 0; o < objects; ++o) {
        const auto row = target[0][o].to_vector<float>();
        if (row[4] >= 0) CHECK(row[3] > row[1]);
      }
  }
}

// What the golden file has, `step` images from `first` on.
void add_golden(data::MeanAveragePrecision& metric, const Golden& golden, bool crowds, int first = 0, int step = 1) {
  const Tensor counts = golden.find("counts"), targets = golden.find("targets");
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < counts.numel(); ++i) {
    const std::int64_t end = at + counts[i].item<std::int64_t>();
    if (i % step == first)
      metric.add(golden.find("boxes").slice(0, at, end), golden.find("scores").slice(0, at, end),
                 golden.find("labels").slice(0, at, end), targets[i], crowds ? targets[i].select(1, 5) > 0 : Tensor());
    at = end;
  }
}

TEST_CASE("mean average precision is pycocotools', with and without crowds") {
  const Golden golden("average_precision");
  const bool crowds = GENERATE(false, true);
  const std::string prefix = crowds ? "crowd " : "";
  data::MeanAveragePrecision metric(4);
  CHECK(metric.value() == 0);
  add_golden(metric, golden, crowds);
  CHECK(metric.images() == 25);
  const auto expected = golden.find(prefix + "stats").to_vector<double>();
  CHECK(metric.value() == Approx(expected[0]).epsilon(1e-12));
  CHECK(metric.value(0.5) == Approx(expected[1]).epsilon(1e-12));
  CHECK(metric.value(0.75) == Approx(expected[2]).epsilon(1e-12));
  CHECK(metric.recall() == Approx(expected[3]).epsilon(1e-12));
  const auto classes = golden.find(prefix + "per class").to_vector<double>();
  const auto got = metric.per_class();
  for (std::size_t c = 0; c < 3; ++c) CHECK(got[c] == Approx(classes[c]).epsilon(1e-12));
  CHECK(std::isnan(got[3]));
  const Tensor target = golden.find("targets")[0];
  CHECK_THROWS_WITH(metric.value(0.123), Contains("0.123"));
  CHECK_THROWS_WITH(metric.add(zeros({1, 4}), zeros({1}), full({1}, 4, {.dtype = i64}), target),
                    Contains("a detection has class 4 of 4"));
  CHECK_THROWS_WITH(metric.add(zeros({1, 5}), zeros({1}), zeros({1}, {.dtype = i64}), target),
                    Contains("expected boxes [K, 4]"));
  CHECK_THROWS_WITH(metric.add(zeros({1, 4}), zeros({1}), zeros({1}, {.dtype = i64}), target, zeros({7})),
                    Contains("expected crowds bool [7]"));
  metric.reset();
  CHECK((metric.images() == 0 && metric.value() == 0));
}

TEST_CASE("metrics of several ranks, gathered, are those of one that has seen all") {
  const Golden golden("average_precision"), binary("binary_scores");
  data::MeanAveragePrecision whole(4);
  add_golden(whole, golden, true);
  const std::string error = error_of_ranks(3, [&](distributed::ProcessGroup& group) {
    data::MeanAveragePrecision metric(4);
    add_golden(metric, golden, true, group.rank(), group.size());
    metric.gather(group);
    check(metric.images() == 25 && metric.recall() == whole.recall(), "rank ", group.rank(), ": ", metric.images());
    // Equal scores of different images come in another order.
    check(std::abs(metric.value() - whole.value()) < 0.01, metric.value(), " instead of ", whole.value());
    data::BinaryScores scores;
    const std::int64_t first = group.rank() * 100 + (group.rank() > 0 ? 50 : 0);  // parts of different sizes
    const std::int64_t end = group.rank() == 2 ? 300 : (group.rank() + 1) * 100 + 50;
    scores.add(binary.find("scores").slice(0, first, end), binary.find("labels").slice(0, first, end));
    scores.gather(group);
    const auto areas = binary.find("areas").to_vector<double>();
    check(scores.seen() == 300 && std::abs(scores.roc_auc() - areas[0]) < 1e-12 &&
              std::abs(scores.average_precision() - areas[1]) < 1e-12,
          "rank ", group.rank(), ": ", scores.roc_auc());
  });
  CHECK(error == "");
  CHECK_THAT(error_of_ranks(2, [](distributed::ProcessGroup& group) {
               data::MeanAveragePrecision(group.rank() + 3).gather(group);
             }),
             Contains("different numbers of classes"));
}
