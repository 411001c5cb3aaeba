// Randomness in the augmentations that choose: policies, containers, transforms with a probability. Their images are
// compared with torchvision's in golden_transforms_test.cpp.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/cpu/isa.h"
#include "core/random.h"
#include "data/pipeline.h"
#include "data/synthetic.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::AugmentOp;
using data::Batch;
using data::Draws;

namespace {

Draws draws(std::uint64_t item = 0) { return Draws(test::seed(), data::Purpose::augment, 0, item); }
Tensor pictures(std::int64_t count) { return data::synthetic_color_digits(count, 3).images; }
bool same_picture(const Tensor& a, const Tensor& b, std::int64_t i) { return same_bits(a[i], b[i]); }

// Whether `seen` of `n` trials with probability p is within six standard deviations.
bool as_likely_as(std::int64_t seen, double p, std::int64_t n) {
  const auto trials = static_cast<double>(n);
  return std::abs(static_cast<double>(seen) - p * trials) <= 6 * std::sqrt(p * (1 - p) * trials) + 1e-9;
}

struct Counts {
  std::map<AugmentOp, std::int64_t> ops, negative;
  std::map<std::pair<AugmentOp, double>, std::int64_t> sizes;
  std::int64_t all = 0;
  void add(const data::AugmentSteps& steps) {
    for (const data::AugmentStep& s : steps) {
      ++ops[s.op];
      negative[s.op] += s.magnitude < 0;
      ++sizes[{s.op, std::abs(s.magnitude)}];
      ++all;
    }
  }
};

}  // namespace

TEST_CASE("RandAugment: every operation equally often, at one strength, half of them negative") {
  MANTISSA_PRINT_SEED();
  Draws d = draws();
  Counts counts;
  constexpr int n = 10000;
  for (int i = 0; i < n; ++i) {
    const data::AugmentSteps steps = data::rand_augment_steps(32, 32, d, {.num_ops = 3, .magnitude = 7});
    REQUIRE(steps.size() == 3);
    counts.add(steps);
  }
  CHECK(counts.ops.size() == 14);
  CHECK(counts.ops.count(AugmentOp::invert) == 0);
  for (const data::AugmentLevels& l : data::rand_augment_space(31, 32, 32)) {
    INFO("operation " << static_cast<int>(l.op));
    CHECK(as_likely_as(counts.ops[l.op], 1.0 / 14, counts.all));
    CHECK(as_likely_as(counts.negative[l.op], l.mirrored ? 0.5 : 0, counts.ops[l.op]));
    const double strength = l.magnitudes.empty() ? 0 : static_cast<double>(l.magnitudes[7]);
    CHECK(counts.sizes[{l.op, strength}] == counts.ops[l.op]);
  }
}

TEST_CASE("TrivialAugment: one operation, every one and every strength equally often") {
  MANTISSA_PRINT_SEED();
  Draws d = draws(1);
  Counts counts;
  constexpr int n = 40000;
  for (int i = 0; i < n; ++i) counts.add(data::trivial_augment_steps(d));
  CHECK(counts.all == n);
  for (const data::AugmentLevels& l : data::trivial_augment_space(31)) {
    INFO("operation " << static_cast<int>(l.op));
    CHECK(as_likely_as(counts.ops[l.op], 1.0 / 14, n));
    std::map<float, int> levels;  // several may have the same strength
    for (const float m : l.magnitudes) ++levels[m];
    for (const auto& [m, times] : levels)
      CHECK(as_likely_as(counts.sizes[{l.op, static_cast<double>(m)}], times / 31.0, counts.ops[l.op]));
    if (l.mirrored) CHECK(as_likely_as(counts.negative[l.op], 0.5 * 30 / 31, counts.ops[l.op]));  // -0 is not below 0
  }
}

TEST_CASE("AutoAugment: operations as often as the pairs and their probabilities say") {
  MANTISSA_PRINT_SEED();
  for (const auto policy :
       {data::AutoAugmentPolicy::imagenet, data::AutoAugmentPolicy::cifar10, data::AutoAugmentPolicy::svhn}) {
    INFO("policy " << static_cast<int>(policy));
    const auto pairs = data::auto_augment_policy(policy);
    const data::AugmentSpace space = data::rand_augment_space(10, 32, 32);
    std::map<std::pair<AugmentOp, double>, double> expected;  // expected occurrences per image
    for (const auto& pair : pairs)
      for (const data::PolicyStep& s : pair) {
        double strength = 0;
        for (const data::AugmentLevels& l : space)
          if (l.op == s.op && s.level >= 0)
            strength = static_cast<double>(l.magnitudes[static_cast<std::size_t>(s.level)]);
        expected[{s.op, strength}] += static_cast<double>(s.probability) / static_cast<double>(pairs.size());
      }
    Draws d = draws(2);
    Counts counts;
    constexpr int n = 20000;
    for (int i = 0; i < n; ++i) counts.add(data::auto_augment_steps(32, 32, d, {.policy = policy}));
    for (const auto& [what, times] : counts.sizes) {
      INFO("operation " << static_cast<int>(what.first) << " with " << what.second);
      REQUIRE(expected.count(what) == 1);
    }
    for (const auto& [what, often] : expected) {
      INFO("operation " << static_cast<int>(what.first) << " with " << what.second);
      // It may occur twice in an image: the variance is at most that of twice as many trials.
      CHECK(as_likely_as(counts.sizes[what], often / 2, 2 * n));
    }
  }
}

TEST_CASE("policies change pictures, each by itself, and repeat with their draws") {
  MANTISSA_PRINT_SEED();
  using Change = void (*)(Tensor&, Draws&);
  const std::map<std::string, Change> policies{
      {"rand", [](Tensor& x, Draws& d) { data::rand_augment_(x, d); }},
      {"trivial", [](Tensor& x, Draws& d) { data::trivial_augment_wide_(x, d); }},
      {"auto", [](Tensor& x, Draws& d) { data::auto_augment_(x, d); }},
      {"augmix", [](Tensor& x, Draws& d) { data::aug_mix_(x, d); }}};
  const Tensor before = pictures(60);
  for (const auto& [name, change] : policies) {
    INFO(name);
    Tensor once = before.clone(), again = before.clone(), gray = before.slice(1, 0, 1).contiguous();
    Draws a = draws(3), b = draws(3), c = draws(4);
    change(once, a);
    change(again, b);
    CHECK(same_bits(once, again));
    change(gray, c);
    int changed = 0;
    for (std::int64_t i = 0; i < 60; ++i) changed += !same_picture(once, before, i);
    CHECK(changed > 20);
    Tensor same = repeat(before[0].reshape({1, 3, before.size(2), before.size(3)}), {40, 1, 1, 1});
    Draws e = draws(5);
    change(same, e);
    int others = 0;
    for (std::int64_t i = 1; i < 40; ++i) others += !same_bits(same[i], same[0]);
    CHECK(others > 10);
    Tensor floats = before.to(f32), two = zeros({1, 2, 4, 4}, {.dtype = u8});
    CHECK_THROWS_WITH(change(floats, e), Contains("expected contiguous u8 images [B, C, H, W] with 1 or 3 channels"));
    CHECK_THROWS_WITH(change(two, e), Contains("with 1 or 3 channels, got u8[1, 2, 4, 4]"));
  }
  Tensor x = before.clone();
  Draws d = draws();
  CHECK_THROWS_WITH(data::rand_augment_(x, d, {.magnitude = 31}), Contains("a level from 0 to below 31"));
  CHECK_THROWS_WITH(data::rand_augment_(x, d, {.num_ops = -1}), Contains("num_ops must not be negative"));
  CHECK_THROWS_WITH(data::trivial_augment_wide_(x, d, {.num_magnitude_bins = 1}), Contains("at least 2 levels"));
  CHECK_THROWS_WITH(data::aug_mix_(x, d, {.severity = 11}), Contains("severity must be 1 to 10"));
}

TEST_CASE("AugMix mixes: a flat picture stays between what its operations make of it") {
  MANTISSA_PRINT_SEED();
  Draws d = draws(6);
  // The weakest strength leaves a uniform image unchanged, up to truncation of sums.
  Tensor flat = full({300, 3, 8, 8}, 96, {.dtype = u8});
  data::aug_mix_(flat, d, {.severity = 1, .all_ops = false, .fill = 96});
  int as_before = 0;
  for (const int v : flat.to_vector<int>()) {
    REQUIRE((v == 95 || v == 96));
    as_before += v == 96;
  }
  CHECK(as_before > 0);
  const Tensor before = pictures(100);
  Tensor weak = before.clone(), strong = before.clone();
  data::aug_mix_(weak, d, {.severity = 1, .mixture_width = 1, .chain_depth = 1});
  data::aug_mix_(strong, d, {.severity = 10, .mixture_width = 1, .chain_depth = 3});
  const auto distance = [&](const Tensor& x) { return mean(abs(x.to(f32) - before.to(f32))).item<double>(); };
  CHECK(distance(strong) > 1.5 * distance(weak));
}

TEST_CASE("transforms with a probability: none, all, or about so many of the pictures") {
  MANTISSA_PRINT_SEED();
  using Change = std::function<void(Tensor&, Draws&, float)>;
  const std::map<std::string, Change> changes{
      {"posterize", [](Tensor& x, Draws& d, float p) { data::random_posterize_(x, d, 2, p); }},
      {"solarize", [](Tensor& x, Draws& d, float p) { data::random_solarize_(x, d, 60, p); }},
      {"invert", [](Tensor& x, Draws& d, float p) { data::random_invert_(x, d, p); }},
      {"autocontrast", [](Tensor& x, Draws& d, float p) { data::random_autocontrast_(x, d, p); }},
      {"equalize", [](Tensor& x, Draws& d, float p) { data::random_equalize_(x, d, p); }},
      {"sharpness", [](Tensor& x, Draws& d, float p) { data::random_adjust_sharpness_(x, d, 3, p); }},
      {"perspective", [](Tensor& x, Draws& d, float p) { x = data::random_perspective(x, d, {.p = p}); }}};
  const Tensor before = pictures(200);
  for (const auto& [name, change] : changes) {
    INFO(name);
    Draws d = draws(7);
    for (const float p : {0.0f, 0.3f, 1.0f}) {
      Tensor x = before.clone();
      change(x, d, p);
      std::int64_t changed = 0;
      for (std::int64_t i = 0; i < 200; ++i) changed += !same_picture(x, before, i);
      INFO("p " << p);
      if (p == 1) CHECK(changed > 150);  // some images use all levels already
      else CHECK((changed <= 0.3 * 200 + 6 * 6.5 && (p == 0) == (changed == 0)));
    }
    Tensor x = before.clone();
    CHECK_THROWS_WITH(change(x, d, 1.5f), Contains("1.5"));
  }
  Draws d = draws(8);
  Tensor noisy = full({1, 1, 100, 100}, 100, {.dtype = u8});
  data::gaussian_noise_(noisy, d, 0.1f, 0.05f);
  const Tensor as_f32 = noisy.to(f32) - 100;
  CHECK(std::abs(mean(as_f32).item<double>() - 25.5) < 0.5 + 6 * 12.75 / 100);  // cut off to whole levels
  CHECK(std::abs(std::sqrt(mean(square(as_f32 - mean(as_f32))).item<double>()) - 12.75) < 0.6);
  Tensor rows = cat({zeros({300, 1, 1, 2}), ones({300, 1, 1, 2}), full({300, 1, 1, 2}, 2.0)}, 1).to(f32).contiguous();
  data::random_channel_permutation_(rows, d);
  std::map<double, int> first;
  for (std::int64_t i = 0; i < 300; ++i) {
    CHECK(rows[i].sum().item<double>() == 6);
    ++first[rows[{i, 0, 0, 0}].item<double>()];
  }
  for (const auto& [value, times] : first) CHECK(as_likely_as(times, 1.0 / 3, 300));
  Tensor same = before.clone(), distorted = before.clone();
  data::random_photometric_distort_(same, d, {.p = 0});
  data::random_photometric_distort_(distorted, d, {});
  CHECK(same_bits(same, before));
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < 200; ++i) changed += !same_picture(distorted, before, i);
  CHECK(changed > 170);  // 1 in 32 gets no change
  CHECK_THROWS_WITH(data::random_photometric_distort_(same, d, {.hue = {0, 0.6f}}), Contains("within -0.5 and 0.5"));
}

TEST_CASE("warps and crops: what changes nothing, what must not go on") {
  MANTISSA_PRINT_SEED();
  Draws d = draws(9);
  const Tensor x = pictures(8);
  CHECK(same_bits(data::random_perspective(x, d, {.distortion_scale = 0, .p = 1}), x));
  CHECK(same_bits(data::elastic(x, zeros({x.size(2), x.size(3), 2}, {.dtype = f32})), x));
  CHECK(same_bits(data::random_elastic(x, d, {.alpha = 0}), x));
  const Tensor bent = data::random_elastic(x, d);
  for (std::int64_t i = 0; i < 8; ++i) CHECK(!same_picture(bent, x, i));
  CHECK(same_bits(data::random_crop(x, {.height = x.size(2), .width = x.size(3)}, d), x));
  const Tensor flat = full({2, 3, 9, 9}, 50, {.dtype = u8});
  const Tensor larger = data::random_crop(flat, {12, 13, 4, 0, data::Border::reflect}, d);
  CHECK(same_bits(larger, full({2, 3, 12, 13}, 50, {.dtype = u8})));
  CHECK(data::random_resize(x, 20, 21, d).sizes() == Dims{8, 3, 20, 20});
  CHECK(data::scale_jitter(x, 64, 64, d, {0.5f, 0.5f}).sizes() == Dims{8, 3, 32, 32});
  const Tensor low = x.slice(2, 0, 3).contiguous();  // corners of some fall on a line
  for (int i = 0; i < 50; ++i) CHECK(data::random_perspective(low, d, {.distortion_scale = 1, .p = 1}).defined());
  CHECK_THROWS_WITH(data::pad(x, {.left = 32, .border = data::Border::reflect}), Contains("mirrored by at most 31"));
  CHECK_THROWS_WITH(data::pad(x, {.left = -1}), Contains("must not be negative"));
  CHECK_THROWS_WITH(data::random_crop(x, {.height = 40, .width = 8}, d), Contains("40 x 8 does not fit"));
  CHECK_THROWS_WITH(data::five_crop(x, 33, 1), Contains("windows of 33 x 1 do not fit"));
  CHECK_THROWS_WITH(data::perspective(x, {{{0, 0}, {1, 0}, {1, 1}, {0, 1}}}, {{{0, 0}, {1, 0}, {2, 0}, {0, 1}}}),
                    Contains("on a line"));
  CHECK_THROWS_WITH(data::elastic(x, zeros({2, 2, 2})), Contains("expected a contiguous displacement f32[32, 32, 2]"));
  CHECK_THROWS_WITH(data::random_resize(x, 5, 5, d), Contains("a range of positive numbers"));
}

namespace {

Tensor through(data::Pipeline (*steps)(data::Pipeline), const Tensor& images) {
  data::Dataset set{.images = images, .labels = arange(images.size(0)), .classes = images.size(0)};
  data::Loader loader = steps(data::Pipeline(set).seed(test::seed())).raw().batch(images.size(0)).loader();
  Batch b;
  loader.next(b);
  CHECK(same_bits(b.label, set.labels));
  return b.image;
}
void refuses(data::Pipeline (*steps)(data::Pipeline), const std::string& why) {
  CHECK_THROWS_WITH(through(steps, full({50, 1, 4, 4}, 9, {.dtype = u8})), Contains(why));
}

}  // namespace

TEST_CASE("containers: each picture draws for itself") {
  MANTISSA_PRINT_SEED();
  using P = data::Pipeline;
  const Tensor x = full({600, 1, 2, 2}, 96, {.dtype = u8});
  const auto count = [&](P (*steps)(P)) {
    std::map<int, std::int64_t> of;
    const Tensor y = through(steps, x);
    for (std::int64_t i = 0; i < 600; ++i) ++of[y[{i, 0, 1, 1}].item<int>()];
    return of;
  };
  auto seen = count([](P p) {
    return p.random_apply([](P q) { return q.random_invert(1).random_posterize(1, 1); }, 0.25f);
  });
  CHECK(seen.size() == 2);
  CHECK(as_likely_as(seen[128], 0.25, 600));  // 255 - 96, and then its highest bit
  const auto never = count(
      [](P p) { return p.random_apply([](P q) { return q.random_invert(1); }, 0.0f); });
  CHECK((never.size() == 1 && never.begin()->first == 96));
  seen = count([](P p) {
    return p.random_choice({[](P q) { return q.random_invert(1); },
                                       [](P q) { return q.random_posterize(1, 1); }, [](P q) { return q; }},
                                      {2, 1, 1});
  });
  CHECK(seen.size() == 3);
  CHECK(as_likely_as(seen[159], 0.5, 600));
  CHECK(as_likely_as(seen[0], 0.25, 600));
  seen = count([](P p) {
    return p.random_order({[](P q) { return q.random_invert(1); },
                                      [](P q) { return q.random_posterize(1, 1); }});
  });
  CHECK(seen.size() == 2);
  CHECK(as_likely_as(seen[255], 0.5, 600));  // posterized to 0 first
  CHECK(as_likely_as(seen[128], 0.5, 600));
  const Tensor halves = through(
      [](P p) {
        return p.random_choice({[](P q) { return q.center_crop(1, 1); },
                                           [](P q) { return q.resize(1, 1); }});
      },
      x);
  CHECK(halves.sizes() == Dims{600, 1, 1, 1});  // all came out with another size, and the same

  refuses([](P p) { return p.random_apply([](P q) { return q.center_crop(2, 2); }); },
          "all pictures must come out alike");
  refuses([](P p) { return p.random_apply([](P q) { return q.mixup(50); }); },
          "must not change the targets");
  CHECK_THROWS_WITH(data::RandomApply({}, 2), Contains("p must be a probability, got 2"));
  CHECK_THROWS_WITH(data::RandomChoice({}), Contains("0 choices"));
  CHECK_THROWS_WITH(data::RandomChoice({{}, {}}, {1}), Contains("2 choices and 1 weights"));
  CHECK_THROWS_WITH(data::RandomChoice({{}}, {0}), Contains("the weights are all 0"));
}

TEST_CASE("batches are the same for any number of threads, and after a run was resumed") {
  const auto make = [](int threads) {
    using P = data::Pipeline;
    return data::Pipeline(data::synthetic_color_digits(40, 3))
        .shuffle(7)
        .random_crop({.height = 32, .width = 32, .padding = 4, .border = data::Border::reflect})
        .rand_augment()
        .trivial_augment_wide()
        .auto_augment({.policy = data::AutoAugmentPolicy::cifar10})
        .random_apply([](P p) { return p.aug_mix().random_elastic().random_perspective(); }, 0.5f)
        .random_choice({[](P p) { return p.random_posterize(3).random_solarize(128); },
                        [](P p) { return p.random_adjust_sharpness(2).random_equalize(); }})
        .random_order({[](P p) { return p.random_invert().random_autocontrast(); },
                       [](P p) { return p.color_jitter({0.4f, 0.4f, 0.4f, 0.1f}); }})
        .random_channel_permutation()
        .random_photometric_distort()
        .gaussian_noise(0, 0.02f)
        .random_resize(24, 40)
        .batch(8)
        .threads(threads)
        .loader();
  };
  data::Loader one = make(0), three = make(3);
  std::vector<Batch> all;
  Batch a, b;
  std::set<std::int64_t> sides;
  for (int i = 0; i < 5; ++i) {
    REQUIRE(one.next(a));
    REQUIRE(three.next(b));
    CHECK(same_bits(a.image, b.image));
    CHECK(same_bits(a.label, b.label));
    sides.insert(a.image.size(2));
    all.push_back(a);
  }
  CHECK(sides.size() > 1);
  data::Loader resumed = make(2);
  data::LoaderState state = resumed.state();
  state.batch = 3;
  resumed.restore(state);
  REQUIRE(resumed.next(b));
  CHECK(same_bits(all[3].image, b.image));
}

TEST_CASE("numbers that are too large, or no numbers, are refused and never used") {
  Draws d = draws(9);
  const Tensor x = pictures(2);  // [2, 3, 32, 32]
  const std::int64_t huge = INT64_MAX / 2;
  const float inf = INFINITY;
  // Without checks the sum of sizes would wrap around to a small image.
  for (const std::int64_t border : {huge, INT64_MAX}) {
    CHECK_THROWS_WITH(data::pad(x, {.left = border, .right = border}), Contains("too wide"));
    CHECK_THROWS_WITH(data::random_crop(x, {.height = 4, .width = 4, .padding = border}, d), Contains("too wide"));
    CHECK_THROWS_WITH(data::random_crop(x, border, d), Contains("too wide"));
    CHECK_THROWS_WITH(data::resize_shorter_side(x, border), Contains("from 1 to 2^31 - 1"));
  }
  // Without checks these would sample forever.
  Batch b{clone(x), tensor({1, 2})};
  CHECK_THROWS_WITH(data::mixup(b, d, 4, inf), Contains("alpha must be positive"));
  CHECK_THROWS_WITH(data::cutmix(b, d, 4, inf), Contains("alpha must be positive"));
  CHECK_THROWS_WITH(data::aug_mix_(b.image, d, {.alpha = inf}), Contains("alpha positive"));
  b.label = tensor({1, 2, 3});
  CHECK_THROWS_WITH(data::mixup(b, d, 4), Contains("mixup: 2 images and targets i64[3]"));

  CHECK_THROWS_WITH(data::random_resized_crop(x, 5, d, {.ratio = {inf, inf}}), Contains("ranges of positive numbers"));
  CHECK_THROWS_WITH(data::scale_jitter(x, 5, 5, d, {1, inf}), Contains("must be positive"));
  CHECK(data::random_resized_crop(x, 5, d, {.ratio = {1e-30f, 1e-30f}}).sizes() == Dims{2, 3, 5, 5});  // a line
  CHECK_THROWS_WITH(data::gaussian_noise_(b.image, d, 0, inf), Contains("must be finite"));
  CHECK_THROWS_WITH(data::adjust_sharpness_(b.image, 1e300), Contains("below a million"));
  CHECK_THROWS_WITH(data::apply_augment_(b.image, {AugmentOp::posterize, 1e300}), Contains("too large"));
  CHECK_THROWS_WITH(data::apply_augment_(b.image, {static_cast<AugmentOp>(99), 0}), Contains("no operation 99"));
  CHECK_THROWS_WITH(data::random_elastic(x, d, {.sigma = 8}),
                    Contains("random_elastic: images of 32 x 32 are too small"));
  CHECK_THROWS_WITH(data::random_flip_(b.image, d, NAN), Contains("must be a probability"));
  CHECK_THROWS_WITH(data::random_erasing_(b.image, d, {.p = 2}), Contains("must be a probability"));
}

TEST_CASE("a value to fill in is cut off to the levels of a picture, wherever it is given") {
  Draws d = draws(10);
  for (const auto& [value, level] : {std::pair(300.0f, 255), {-5.0f, 0}, {77.9f, 77}, {NAN, 0}, {INFINITY, 255}}) {
    INFO(value);
    Tensor x = Tensor::allocate({1, 1, 8, 8}, u8);
    const auto filled = [&](const Tensor& y) { return static_cast<int>(y.data<std::uint8_t>()[0]); };
    x.fill_(9);
    data::cutout_(x, d, 100, value);
    CHECK(filled(x) == level);
    x.fill_(9);
    CHECK(filled(data::pad(x, {.left = 1, .fill = value})) == level);
    const int nearest = value == 77.9f ? 78 : level;  // as torchvision's rotation
    CHECK(filled(data::affine(x, {.right = 100}, {.fill = value})) == nearest);
    CHECK(filled(data::affine(x, {.right = 100}, {data::Interpolation::bilinear, value})) == nearest);
  }
}

TEST_CASE("pictures change to the same bits whatever vectors the machine has") {
  MANTISSA_PRINT_SEED();
  manual_seed(test::seed());
  const std::pair<const char*, void (*)(Tensor&, Draws&)> changes[] = {
      {"colours", [](Tensor& x, Draws& d) { data::color_jitter_(x, d, {0.9f, 0.9f, 0.9f, 0.5f}); }},
      {"grey", [](Tensor& x, Draws&) { x = data::grayscale(x, 3); }},
      {"sharpness", [](Tensor& x, Draws&) { data::adjust_sharpness_(x, 1.7); }},
      {"blur", [](Tensor& x, Draws&) { x = data::gaussian_blur(x, 5, 1.3f); }},
      {"rotation", [](Tensor& x, Draws& d) { x = data::random_rotation(x, 180, d); }},
      {"perspective", [](Tensor& x, Draws& d) { x = data::random_perspective(x, d, {.p = 1}); }},
  };
  const cpu_backend::Isa before = cpu_backend::isa();
  for (const Dtype dtype : {u8, f32}) {
    Tensor pictures = randint(0, 256, {5, 3, 19, 23}).to(u8);
    pictures[0].slice(2, 0, 9).fill_(7);  // grey: without a hue
    if (dtype == f32) pictures = data::to_float(pictures);
    for (const auto& [name, change] : changes) {
      INFO(name << " of " << name_of(dtype));
      std::vector<Tensor> results;
      for (const auto isa : {cpu_backend::Isa::baseline, cpu_backend::best_isa()}) {
        cpu_backend::set_isa(isa);
        Tensor x = pictures.clone();
        Draws d = draws();
        change(x, d);
        cpu_backend::set_isa(before);
        results.push_back(x);
      }
      CHECK_FALSE(same_bits(results[0], pictures));
      CHECK(same_bits(results[0], results[1]));
    }
  }
}
