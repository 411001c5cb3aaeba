// Targets with a value per pixel go where their pixels go, whatever moves them; classes are not mixed. Metrics of
// pixels.
#include "data/pixel_targets.h"

#include <functional>

#include "core/operators.h"
#include "core/ops.h"
#include "core/random.h"
#include "data/metrics.h"
#include "data/pipeline.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using P = data::Pipeline;

namespace {

constexpr int classes = 4, level = 80;

// Pictures of blocks, each as bright as 80 times its class, [N, 2, 24, 20]; the classes are the target.
data::Dataset blocks(std::int64_t n = 12) {
  manual_seed(test::seed());
  const Tensor small = randint(classes, {n, 1, 6, 5});
  const Tensor large = interpolate(small.to(f32), {.size = {24, 20}, .mode = "nearest"});
  return {.images = repeat(large * level, {1, 2, 1, 1}).to(u8), .labels = large.squeeze(1).to(u8), .classes = classes};
}
data::Dataset with_labels(data::Dataset set, const Tensor& labels) {
  set.labels = labels;
  return set;
}

using Steps = std::function<P(P)>;
// Calls f(images [B, H, W] as numbers of classes, targets) for the batches that `steps` make of the set.
template <class F> void each_batch(const data::Dataset& set, const Steps& steps, F f) {
  for (auto [image, label] : steps(P(set).raw().batch(4).seed(test::seed())).epochs(2)) {
    REQUIRE(image.dtype() == u8);
    f(image.select(1, 0).to(f32) / level, label);
  }
}

}  // namespace

TEST_CASE("targets lie on their pixels, whatever moves them") {
  constexpr auto nearest = data::Interpolation::nearest;
  const std::vector<std::pair<const char*, Steps>> all{
      {"random_flip", [](P p) { return p.random_flip(); }},
      {"random_vertical_flip", [](P p) { return p.random_vertical_flip(); }},
      {"random_crop(5)", [](P p) { return p.random_crop(5); }},
      {"random_crop", [](P p) { return p.random_crop({.height = 17, .width = 18, .padding = 2}); }},
      {"reflect", [](P p) {
         return p.random_crop({.height = 17, .width = 18, .padding = 2, .border = data::Border::reflect});
       }},
      {"pad", [](P p) { return p.pad({.left = 3, .bottom = 1, .border = data::Border::edge}).random_flip(); }},
      {"random_rotation", [](P p) { return p.random_rotation(40); }},
      {"random_affine", [](P p) {
         return p.random_affine({.degrees = 20, .translate = {0.2f, 0.1f}, .scale = {0.7f, 1.3f}, .shear_x = {-9, 9}});
       }},
      {"random_perspective", [](P p) { return p.random_perspective({.p = 0.7f, .interpolation = nearest}); }},
      {"random_elastic", [](P p) { return p.random_elastic({.sigma = 1, .interpolation = nearest}); }},
      {"random_resized_crop", [](P p) { return p.random_resized_crop(16, {.interpolation = nearest}); }},
      {"center_crop", [](P p) { return p.random_flip().center_crop(30, 9); }},
      {"random_apply", [](P p) {
         return p.random_apply([](P q) { return q.random_rotation(30).random_invert(0); }, 0.5f);
       }},
      {"random_choice", [](P p) {
         return p.random_choice({[](P q) { return q.random_flip(); }, [](P q) { return q.random_crop(4); }});
       }},
      {"random_order", [](P p) {
         return p.random_order({[](P q) { return q.random_flip(); }, [](P q) { return q.random_crop(4); }});
       }},
      {"two", [](P p) { return p.random_crop(4).random_rotation(15).random_flip(); }},
  };
  const data::Dataset set = blocks();
  for (const auto& [name, steps] : all) {
    INFO(name << ", seed " << test::seed());
    std::vector<float> as_u8;
    for (const Tensor& labels : {set.labels, set.labels.to(i64), set.labels.to(f32), set.labels.to(f32).unsqueeze(1)}) {
      const bool whole = !labels.is_floating();
      std::vector<float> seen;
      each_batch(with_labels(set, labels), steps, [&](const Tensor& image, const Tensor& label) {
        CHECK(label.dtype() == (whole ? i64 : f32));
        const Tensor target = (label.dim() == 4 ? label.squeeze(1) : label).to(f32);
        REQUIRE(target.sizes() == image.sizes());
        CHECK(equal(target, image));
        for (const float v : target.to_vector<float>()) seen.push_back(v);
      });
      if (as_u8.empty()) as_u8 = seen;
      CHECK(seen == as_u8);
    }
    std::vector<float> still;
    each_batch(set, [](P p) { return p; }, [&](const Tensor&, const Tensor& label) {
      for (const float v : label.to(f32).to_vector<float>()) still.push_back(v);
    });
    CHECK(still != as_u8);
  }
}

TEST_CASE("classes are not mixed where pixels are, and lie where their pixels are not mixed either") {
  const std::vector<std::pair<const char*, Steps>> all{
      {"resize", [](P p) { return p.resize(17, 31); }},
      {"smaller", [](P p) { return p.resize(9, 7); }},
      {"random_resize", [](P p) { return p.random_resize(10, 40); }},
      {"random_shorter_side", [](P p) { return p.random_shorter_side({11, 33}); }},
      {"scale_jitter", [](P p) { return p.scale_jitter(30, 30, {0.5f, 1.5f}); }},
      {"random_resized_crop", [](P p) { return p.random_resized_crop(19); }},
      {"random_rotation", [](P p) { return p.random_rotation(40, {.interpolation = data::Interpolation::bilinear}); }},
      {"random_perspective", [](P p) { return p.random_perspective({.p = 1}); }},
      {"random_elastic", [](P p) { return p.random_elastic({.sigma = 1}); }},
  };
  data::Dataset set = blocks();
  set.images = (set.images.to(f32) > level).to(u8) * full({1}, 240, {.dtype = u8});  // the lower and the higher classes
  set.labels = (set.labels.to(f32) > 1).to(u8);
  for (const auto& [name, steps] : all) {
    INFO(name << ", seed " << test::seed());
    std::int64_t pure = 0, mixed = 0;
    each_batch(set, steps, [&](const Tensor& image, const Tensor& label) {
      REQUIRE(label.sizes() == image.sizes());
      const std::vector<float> v = image.to_vector<float>();
      const std::vector<std::int64_t> c = label.to_vector<std::int64_t>();
      for (std::size_t i = 0; i < v.size(); ++i) {
        REQUIRE((c[i] == 0 || c[i] == 1));
        if (v[i] == 0 || v[i] == 3) {
          ++pure;
          REQUIRE(v[i] == 3 * static_cast<float>(c[i]));
        } else {
          ++mixed;
        }
      }
    });
    CHECK(pure > mixed / 4);
    CHECK(mixed > 0);
  }
}

TEST_CASE("floating targets of pixels are interpolated as pictures are") {
  const data::Dataset set = blocks();
  const Steps steps = [](P p) { return p.random_rotation(40, {.interpolation = data::Interpolation::bilinear}); };
  for (auto [image, label] : steps(P(with_labels(set, set.images.to(f32))).raw().batch(4).seed(test::seed())))
    CHECK(max(abs(image.to(f32) - label)).item() <= 0.5f + 1e-4f);  // u8 pixels are rounded
}

TEST_CASE("target_fill is what targets are where there is no pixel") {
  const data::Dataset set = blocks();
  const std::vector<Steps> all{
      [](P p) { return p.random_affine({.translate = {0.4f, 0.4f}, .fill = 255, .target_fill = 77}); },
      [](P p) { return p.random_rotation(45, {.fill = 255, .target_fill = 77}); },
      [](P p) { return p.pad({.left = 3, .fill = 255, .target_fill = 77}); },
      [](P p) { return p.random_crop({.height = 20, .width = 20, .padding = 8, .fill = 255, .target_fill = 77}); },
      [](P p) {
        return p.random_perspective(
            {.p = 1, .interpolation = data::Interpolation::nearest, .fill = 255, .target_fill = 77});
      }};
  for (const Steps& steps : all) {
    std::int64_t outside = 0;
    for (auto [image, label] : steps(P(set).raw().batch(4).seed(test::seed()))) {
      const Tensor out = image.select(1, 0) == 255;
      CHECK(equal(out, label == 77));
      outside += sum(out.to(i64)).item<std::int64_t>();
    }
    CHECK(outside > 0);
  }
}

TEST_CASE("noise, boxes and the like leave targets alone; so do moves of targets that are not of pixels") {
  const data::Dataset set = blocks();
  Tensor expected = set.labels.to(i64), seen = zeros_like(expected);
  std::int64_t at = 0;
  for (auto [image, label] :
       P(set).gaussian_noise().cutout(5).random_erasing().gaussian_blur(3).random_solarize(9).batch(5)) {
    CHECK(label.dtype() == i64);
    seen.slice(0, at, at + label.size(0)).copy_(label);
    at += label.size(0);
  }
  CHECK(equal(seen, expected));
  for (auto [image, label] : P(set).map([](data::Batch& b, data::Draws&) { b.label = {}; }).batch(5))
    CHECK(!label.defined());  // a step may do without targets
  const Tensor rows = rand({12, 20}), boxes = rand({12, 24, 4});
  for (const Tensor& labels : {rows, boxes}) {
    at = 0;
    for (auto [image, label] : P(with_labels(set, labels)).random_flip(1).batch(5)) {
      CHECK(equal(label, labels.slice(0, at, at + label.size(0))));
      at += label.size(0);
    }
  }
}

TEST_CASE("what cannot move targets of pixels says so") {
  const data::Dataset set = blocks();
  const auto refuses = [&](const data::Dataset& s, const Steps& steps, const char* message) {
    data::Loader loader = steps(P(s).batch(4)).loader();
    data::Batch batch;
    CHECK_THROWS_WITH(loader.next(batch), Contains(message));
  };
  refuses(set, [](P p) { return p.rand_augment(); }, "rand_augment: moves pixels of images, but not their targets");
  refuses(set, [](P p) { return p.auto_augment(); }, "auto_augment");
  refuses(set, [](P p) { return p.trivial_augment_wide(); }, "trivial_augment_wide");
  refuses(set, [](P p) { return p.aug_mix(); }, "aug_mix");
  refuses(set, [](P p) { return p.mixup(classes); }, "expected i64 labels [B] or f32 targets");
  refuses(with_labels(set, full({12, 24, 20}, (1 << 24) + 1, {.dtype = i64})), [](P p) { return p.random_flip(); },
          "found 16777217");
  CHECK_THROWS_WITH(P(with_labels(set, zeros({12, 24, 21}, {.dtype = u8}))), Contains("u8 or i64 masks [N, H, W]"));
  CHECK_THROWS_WITH(P(with_labels(set, zeros({12}, {.dtype = u8}))), Contains("u8 or i64 masks [N, H, W]"));
}

TEST_CASE("nearest: resize picks the pixels that PyTorch's interpolate does") {
  manual_seed(test::seed());
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::int64_t> n = randint(1, 40, {4}).to_vector<std::int64_t>();
    const Tensor x = randint(256, {2, 3, n[0], n[1]}).to(u8);
    INFO(n[0] << " x " << n[1] << " to " << n[2] << " x " << n[3] << ", seed " << test::seed());
    CHECK(equal(data::resize(x, n[2], n[3], data::Interpolation::nearest).to(f32),
                interpolate(x.to(f32), {.size = {n[2], n[3]}, .mode = "nearest"})));
  }
}

TEST_CASE("metrics of pixels are those of the pixels one by one") {
  manual_seed(test::seed());
  const Tensor scores = randn({3, classes, 5, 6}), labels = randint(classes, {3, 5, 6});
  const Tensor marked = where(rand({3, 5, 6}) < 0.2f, full({}, 255, {.dtype = i64}), labels);
  const Tensor rows = movedim(scores, {1}, {-1}).reshape({-1, classes});
  data::ConfusionMatrix whole(classes, 255), chosen(classes, 255), single(classes);
  data::Accuracy accuracy(1, 255), top2(2, 255), top2_single(2);
  whole.add(scores, marked);
  chosen.add(argmax(scores, 1), marked);
  accuracy.add(scores, marked);
  top2.add(scores, marked);
  const Tensor counted = nonzero(marked.flatten() != 255).flatten();
  single.add(index_select(rows, 0, counted), index_select(marked.flatten(), 0, counted));
  top2_single.add(index_select(rows, 0, counted), index_select(marked.flatten(), 0, counted));
  CHECK(equal(whole.matrix(), single.matrix()));
  CHECK(equal(chosen.matrix(), single.matrix()));
  CHECK(equal(data::ConfusionMatrix(single.matrix()).matrix(), single.matrix()));
  CHECK_THROWS_WITH(data::ConfusionMatrix(zeros({2, 3}, {.dtype = i64})), Contains("expected counts"));
  CHECK_THROWS_WITH(data::ConfusionMatrix(Tensor()), Contains("needs 1 to 100000 classes"));
  CHECK(accuracy.value() == whole.accuracy());
  CHECK(top2.value() == top2_single.value());
  CHECK(top2.seen() == counted.numel());

  data::ConfusionMatrix m(3);  // by hand: 2 right of class 0, 1 of class 1, one 1 taken for 0; class 2 does not occur
  m.add(tensor({0, 0, 1, 0}), tensor({0, 0, 1, 1}));
  CHECK(m.iou() == std::vector<double>{2.0 / 3, 1.0 / 2, 0});
  CHECK(m.iou(data::Average::macro) == Approx((2.0 / 3 + 1.0 / 2) / 2));
  CHECK(m.iou(data::Average::micro) == Approx(3.0 / 5));
  CHECK(m.iou(data::Average::weighted) == Approx((2.0 / 3 + 1.0 / 2) / 2));
  CHECK_THROWS_WITH(m.add(randn({2, 3, 4}), zeros({2, 5}, {.dtype = i64})), Contains("expected i64 labels [2, 4]"));
}
