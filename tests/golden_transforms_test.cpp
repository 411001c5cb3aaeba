// Transforms of u8 images compared with torchvision's, pixel by pixel (tests/golden/transforms.py), and the tables of
// its policies. Transforms without rounding, or with torchvision's rounding, must match bitwise; the rest may differ by
// one level.
#include <cmath>
#include <functional>

#include "data/auto_augment.h"
#include "data/blur.h"
#include "data/color.h"
#include "data/crops.h"
#include "data/levels.h"
#include "data/warp.h"
#include "tests/golden/golden.h"

using namespace mantissa;
using namespace mantissa::test;
using data::AugmentOp;
using data::Interpolation;

namespace {

const Golden& golden() {
  static const Golden file("transforms");
  return file;
}

using Function = std::function<Tensor(const Tensor&)>;

Function in_place(std::function<void(Tensor&)> change) {
  return [change](const Tensor& images) {
    Tensor copy = images.clone();
    change(copy);
    return copy;
  };
}
// Of the only image.
Function adjusted(void (*adjust)(Tensor&, double), double factor) {
  return in_place([=](Tensor& images) {
    Tensor image = images[0];
    adjust(image, factor);
  });
}
Tensor displaced(const Tensor& images, Interpolation how) {
  return data::elastic(images, golden().find("in/displacement"), {.interpolation = how});
}
Tensor seen_from_aside(const Tensor& images, Interpolation how) {
  return data::perspective(images, {{{0, 0}, {31, 0}, {31, 31}, {0, 31}}}, {{{3, 1}, {28, 4}, {31, 27}, {1, 30}}},
                           {.interpolation = how});
}
Tensor bordered(const Tensor& images, data::Border border) { return data::pad(images, {1, 2, 3, 4, 7, border}); }

struct Case {
  Function function;
  int levels = 0;  // how far a pixel may be from torchvision's
};

std::map<std::string, Case> cases() {
  std::map<std::string, Case> all;
  for (const int bits : {0, 1, 4, 7, 8})
    all["posterize " + std::to_string(bits)] = {in_place([=](Tensor& x) { data::posterize_(x, bits); })};
  const auto named = [&](const std::string& name, double number, const Function& f, int levels = 0) {
    char text[64];
    std::snprintf(text, sizeof text, "%s %g", name.c_str(), number);
    all[text] = {f, levels};
  };
  for (const double t : {0.0, 100.0, 127.5, 255.0})
    named("solarize", t, in_place([=](Tensor& x) { data::solarize_(x, t); }));
  all["invert"] = {in_place(data::invert_)};
  all["autocontrast"] = {in_place(data::autocontrast_)};
  all["equalize"] = {in_place(data::equalize_)};
  for (const double f : {0.0, 0.4, 1.0, 1.99})
    named("sharpness", f, in_place([=](Tensor& x) { data::adjust_sharpness_(x, f); }));
  for (const double f : {0.0, 0.3, 1.7}) named("brightness", f, adjusted(data::adjust_brightness_, f));
  for (const double f : {0.0, 0.4, 1.99}) {
    named("contrast", f, adjusted(data::adjust_contrast_, f));
    named("saturation", f, adjusted(data::adjust_saturation_, f));
  }
  for (const double turn : {0.1, -0.37, 0.5}) named("hue", turn, adjusted(data::adjust_hue_, turn), 1);
  all["grayscale"] = {[](const Tensor& x) { return data::grayscale(x); }, 1};
  all["blur"] = {[](const Tensor& x) { return data::gaussian_blur(x, 5, 1.3f); }, 1};
  for (const double degrees : {17.3, -30.0, 90.0, 135.0})
    named("rotate", degrees, [=](const Tensor& x) { return data::rotate(x, degrees); });
  all["rotate bilinear"] = {
      [](const Tensor& x) { return data::rotate(x, 17.3, {.interpolation = Interpolation::bilinear}); }, 1};
  const data::Affine map{.degrees = 20, .right = 2, .down = -3, .scale = 1.25, .shear_x = 10, .shear_y = 5};
  all["affine"] = {[=](const Tensor& x) { return data::affine(x, map, {.fill = 9}); }};
  all["perspective nearest"] = {[](const Tensor& x) { return seen_from_aside(x, Interpolation::nearest); }};
  all["perspective bilinear"] = {[](const Tensor& x) { return seen_from_aside(x, Interpolation::bilinear); }, 1};
  all["elastic nearest"] = {[](const Tensor& x) { return displaced(x, Interpolation::nearest); }};
  all["elastic bilinear"] = {[](const Tensor& x) { return displaced(x, Interpolation::bilinear); }, 1};
  all["pad constant"] = {[](const Tensor& x) { return bordered(x, data::Border::constant); }};
  all["pad edge"] = {[](const Tensor& x) { return bordered(x, data::Border::edge); }};
  all["pad reflect"] = {[](const Tensor& x) { return bordered(x, data::Border::reflect); }};
  all["pad symmetric"] = {[](const Tensor& x) { return bordered(x, data::Border::symmetric); }};
  all["five_crop"] = {[](const Tensor& x) { return data::five_crop(x, 13, 18); }};
  all["ten_crop"] = {[](const Tensor& x) { return data::ten_crop(x, 13, 18); }};
  all["ten_crop vertical"] = {[](const Tensor& x) { return data::ten_crop(x, 13, 18, true); }};
  return all;
}

// The largest difference between two images; 1000 if their sizes differ.
int levels_apart(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != u8) return 1000;
  int most = 0;
  const std::vector<int> x = a.to_vector<int>(), y = b.to_vector<int>();
  for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  return most;
}

void check_space(const std::string& name, const data::AugmentSpace& ours) {
  INFO(name);
  const Tensor expected = golden().find("space/" + name);
  REQUIRE(expected.defined());
  const auto bins = static_cast<std::size_t>(expected.size(1) - 2);
  REQUIRE(static_cast<std::int64_t>(ours.size()) == expected.size(0));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const float* row = expected.data<float>() + i * (bins + 2);
    INFO("operation " << row[0]);
    CHECK(static_cast<int>(ours[i].op) == static_cast<int>(row[0]));
    CHECK(ours[i].mirrored == (row[1] != 0));
    REQUIRE(ours[i].magnitudes.size() == (std::isnan(row[2]) ? 0 : bins));
    for (std::size_t k = 0; k < ours[i].magnitudes.size(); ++k) CHECK(ours[i].magnitudes[k] == row[2 + k]);
  }
}

}  // namespace

TEST_CASE("pictures are torchvision's, bit by bit or within a level") {
  const std::map<std::string, Case> ours = cases();
  std::map<std::string, int> compared;
  for (const std::string& name : golden().cases()) {
    if (name == "in" || name == "space" || name == "policy" || name == "steps") continue;
    INFO(name);
    REQUIRE(ours.count(name) == 1);
    for (const auto& [picture, expected] : golden().below(name + "/")) {
      INFO(picture);
      const Tensor got = ours.at(name).function(golden().find("in/" + picture));
      CHECK(levels_apart(got, expected) <= ours.at(name).levels);
      ++compared[name];
    }
  }
  CHECK(compared.size() == ours.size());
}

TEST_CASE("policies: the strengths are torchvision's numbers") {
  check_space("rand", data::rand_augment_space(31, 32, 32));
  check_space("rand large", data::rand_augment_space(31, 224, 160));
  check_space("trivial", data::trivial_augment_space(31));
  check_space("augmix", data::aug_mix_space(true, 32, 47));
  check_space("augmix partial", data::aug_mix_space(false, 32, 47));
  // AutoAugment has RandAugment's operations, with Invert in place of Identity.
  data::AugmentSpace space = data::rand_augment_space(10, 32, 32);
  space.erase(space.begin());
  space.push_back({AugmentOp::invert, {}, false});
  check_space("auto", space);
}

TEST_CASE("policies: AutoAugment's pairs are torchvision's") {
  using data::AutoAugmentPolicy;
  for (const auto& [name, policy] : {std::pair{"imagenet", AutoAugmentPolicy::imagenet},
                                     {"cifar10", AutoAugmentPolicy::cifar10}, {"svhn", AutoAugmentPolicy::svhn}}) {
    INFO(name);
    const Tensor expected = golden().find(std::string("policy/") + name);
    REQUIRE(expected.defined());
    const auto ours = data::auto_augment_policy(policy);
    REQUIRE(expected.sizes() == Dims{static_cast<std::int64_t>(ours.size()), 2, 3});
    const float* row = expected.data<float>();
    for (const auto& pair : ours)
      for (const data::PolicyStep& step : pair) {
        CHECK(static_cast<float>(step.op) == row[0]);
        CHECK(step.probability == row[1]);
        CHECK(static_cast<float>(step.level) == row[2]);
        row += 3;
      }
  }
}

TEST_CASE("policies: every operation gives torchvision's picture") {
  const Tensor steps = golden().find("steps");
  REQUIRE(steps.defined());
  for (const std::string picture : {"photo", "grey"}) {
    INFO(picture);
    const Tensor results = golden().find("steps/" + picture);
    REQUIRE(results.defined());
    for (std::int64_t i = 0; i < steps.size(0); ++i) {
      const data::AugmentStep step{static_cast<AugmentOp>(steps[{i, 0}].item<int>()), steps[{i, 1}].item<double>()};
      INFO("operation " << static_cast<int>(step.op) << " with " << step.magnitude);
      Tensor image = golden().find("in/" + picture).clone();
      data::apply_augment_(image, step);
      CHECK(levels_apart(image, results.slice(0, i, i + 1)) == 0);
    }
  }
}
