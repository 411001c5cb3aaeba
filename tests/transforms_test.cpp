// Transforms of whole batches: values compared with torchvision's (0.29, printed by its functions), the limits of
// randomness, and the same batches for any number of loader threads.
#include "data/transforms.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/operators.h"
#include "core/ops_matrix.h"
#include "core/ops_special.h"
#include "core/random.h"
#include "data/pipeline.h"
#include "data/synthetic.h"
#include "io/image.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::Batch;
using data::Draws;

namespace {

Draws draws(std::uint64_t item = 0) { return Draws(test::seed(), data::Purpose::augment, 0, item); }

Tensor ramp(std::int64_t h, std::int64_t w, Dtype dtype = u8) {  // 0, 37, 74, ... modulo 256
  std::vector<std::uint8_t> v;
  for (std::int64_t i = 0; i < h * w; ++i) v.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  const Tensor t = Tensor::allocate({1, 1, h, w}, dtype);
  Tensor(t).copy_(from_data<std::uint8_t>(v, {1, 1, h, w}));
  return t;
}
bool close(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> v = got.to_vector<double>();
  if (v.size() != expected.size()) return false;
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (std::abs(v[i] - expected[i]) > tolerance) {
      WARN("element " << i << " is " << v[i] << " instead of " << expected[i]);
      return false;
    }
  }
  return true;
}
Tensor filled(const Dims& sizes, Dtype dtype, double value) { return full(sizes, value, {.dtype = dtype}); }

}  // namespace

TEST_CASE("resize: torchvision's values, smaller and larger") {
  const std::vector<double> down{20.66666603088379, 78.24571990966797, 146.32569885253906, 203.90475463867188,
                                 25.380950927734375, 82.96000671386719, 151.0399932861328, 208.61903381347656,
                                 30.09523582458496, 87.67428588867188, 155.7542724609375, 213.33331298828125};
  CHECK(close(data::resize(ramp(5, 7, f32), 3, 4), down, 1e-3));
  CHECK(close(data::resize(ramp(5, 7), 3, 4), {21, 78, 146, 204, 25, 83, 151, 209, 30, 88, 156, 213}, 1));
  const std::vector<double> up = data::resize(ramp(5, 7, f32), 7, 9).to_vector<double>();
  CHECK((std::abs(up[1] - 24.666669) < 1e-3 && std::abs(up[9] - 1.7142856) < 1e-3 &&
         std::abs(up[41] - 147.92062) < 1e-3 && std::abs(up[62] - 234) < 1e-3));
  CHECK(same_bits(data::resize(ramp(5, 7), 5, 7), ramp(5, 7)));
  CHECK(data::resize_shorter_side(ramp(5, 7), 10).sizes() == Dims{1, 1, 10, 14});
  CHECK(data::resize_shorter_side(ramp(7, 5), 3).sizes() == Dims{1, 1, 4, 3});
  CHECK_THROWS_WITH(data::resize(ramp(5, 7), 0, 4), Contains("resize: the new size must be positive, got 0 x 4"));
  CHECK_THROWS_WITH(data::resize(zeros({3, 3}), 2, 2),
                    Contains("expected contiguous u8 or f32 images [B, C, H, W], got f32[3, 3]"));
}

TEST_CASE("center_crop: torchvision's windows, padded where the image is smaller") {
  CHECK(close(data::center_crop(ramp(5, 7), 2, 4), {80, 117, 154, 191, 83, 120, 157, 194}, 0));
  CHECK(close(data::center_crop(ramp(5, 7), 3, 4), {77, 114, 151, 188, 80, 117, 154, 191, 83, 120, 157, 194}, 0));
  const std::vector<double> padded = data::center_crop(ramp(5, 7, f32), 7, 8).to_vector<double>();
  CHECK((padded[0] == 0 && padded[8] == 0 && padded[9] == 37 && padded[14] == 222 && padded[16] == 3 &&
         padded[46] == 234 && padded[48] == 0));
}

TEST_CASE("rotate: torchvision's values by 30 degrees, nearest and bilinear; four quarter turns are none") {
  CHECK(close(data::rotate(ramp(4, 6), 30),
              {0, 0, 111, 148, 151, 151, 37, 37, 40, 77, 80, 117, 222, 3, 6, 43, 46, 46, 188, 188, 191, 228, 0, 0}, 0));
  CHECK(close(data::rotate(ramp(4, 6, f32), 30, {data::Interpolation::bilinear}),
              {0, 32.55296, 99.11737, 120.93876, 135.98169, 79.35677, 17.68177, 42.90802,
               57.95096, 72.9939, 88.03683, 103.07976, 139.9202, 52.07067, 42.0061, 39.90029,
               40.09197, 50.12819, 118.93675, 203.0183, 181.46622, 178.70505, 4.87689, 0},
              2e-3));
  Tensor square = ramp(6, 6);
  CHECK(!same_bits(data::rotate(square, 90), square));
  for (int turn = 0; turn < 4; ++turn) square = data::rotate(square, 90);
  CHECK(same_bits(square, ramp(6, 6)));
  Draws d = draws();
  CHECK(same_bits(data::random_rotation(ramp(4, 6), 0, d), ramp(4, 6)));
  CHECK(data::rotate(filled({1, 1, 8, 8}, u8, 50), 45, {.fill = 200}).to_vector<int>()[0] == 200);
}

TEST_CASE("random_resized_crop: constant stays constant, windows differ, and the whole image is one of them") {
  Draws d = draws();
  const Tensor gray = filled({4, 3, 20, 30}, u8, 77);
  const Tensor cut = data::random_resized_crop(gray, 8, d);
  CHECK(cut.sizes() == Dims{4, 3, 8, 8});
  CHECK(close(cut, std::vector<double>(4 * 3 * 64, 77), 0));
  const Tensor x = ramp(16, 16, f32);
  CHECK(!same_bits(data::random_resized_crop(x, 8, d), data::random_resized_crop(x, 8, d)));
  CHECK(same_bits(data::random_resized_crop(x, 16, d, {{1, 1}, {1, 1}}), x));
  CHECK(data::random_resized_crop(ramp(2, 40), 8, d).sizes() == Dims{1, 1, 8, 8});  // no window fits: the fallback
}

TEST_CASE("colour: torchvision's values") {
  std::vector<float> v;
  for (int i = 0; i < 18; ++i) v.push_back(static_cast<float>((i * 53 + 11) % 256) / 255);
  const auto adjusted = [&](void (*f)(Tensor&, double), double factor) {
    Tensor image = from_data<float>(v, {3, 2, 3});
    f(image, factor);
    return image;
  };
  CHECK(close(adjusted(data::adjust_brightness_, 1.5f),
              {0.064706, 0.376471, 0.688235, 1, 1, 0.117647, 0.429412, 0.741176, 1, 1, 0.170588, 0.482353, 0.794118, 1,
               1, 0.223529, 0.535294, 0.847059},
              1e-5));
  CHECK(close(adjusted(data::adjust_contrast_, 0.4f),
              {0.291561, 0.374698, 0.457835, 0.540972, 0.62411, 0.305678, 0.388816, 0.471953, 0.55509, 0.638227,
               0.319796, 0.402933, 0.48607, 0.569208, 0.652345, 0.333914, 0.417051, 0.500188},
              1e-5));
  CHECK(close(adjusted(data::adjust_saturation_, 1.7f),
              {0, 0.112288, 0.320146, 0.608117, 1, 0, 0.317764, 0.525622, 0.733479, 1, 0, 0.35306, 0.731097, 0.938955,
               1, 0, 0.348486, 0.766394},
              1e-5));
  CHECK(close(adjusted(data::adjust_hue_, 0.3f),
              {0.529412, 0.737255, 0.945098, 0.14902, 0.50902, 0.564706, 0.043137, 0.25098, 0.458824, 0.818824, 0.87451,
               0.078431, 0.383529, 0.591372, 0.799216, 0.909804, 0.113725, 0.418823},
              1e-5));
  Tensor turned = adjusted(data::adjust_hue_, 1.0f);
  CHECK(close(turned, std::vector<double>(v.begin(), v.end()), 1e-5));
}

TEST_CASE("color_jitter: nothing with strength 0, something else for each image, within the range") {
  Draws d = draws();
  Tensor same = ramp(4, 6);
  data::color_jitter_(same, d, {});
  CHECK(same_bits(same, ramp(4, 6)));
  Tensor many = filled({50, 3, 2, 2}, u8, 100);
  data::color_jitter_(many, d, {.brightness = 0.5f});
  std::set<int> values;
  for (const int x : many.to_vector<int>()) {
    CHECK((x >= 50 && x <= 150));
    values.insert(x);
  }
  CHECK(values.size() > 20);
  CHECK_THROWS_WITH(data::color_jitter_(many, d, {.hue = 0.6f}), Contains("hue at most 0.5"));
  Tensor two = filled({1, 2, 2, 2}, u8, 0);
  CHECK_THROWS_WITH(data::color_jitter_(two, d, {}), Contains("1 or 3 channels"));
}

TEST_CASE("flips: upside down, and to_float") {
  Draws d = draws();
  Tensor x = ramp(3, 2);
  data::random_vertical_flip_(x, d, 1.0f);
  CHECK(close(x, {148, 185, 74, 111, 0, 37}, 0));
  CHECK(close(data::to_float(x), {148 / 255.0, 185 / 255.0, 74 / 255.0, 111 / 255.0, 0, 37 / 255.0}, 1e-7));
}

TEST_CASE("cutout and erasing: one box of the right size and value") {
  Draws d = draws();
  int smallest = 1000, largest = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Tensor x = filled({1, 2, 12, 12}, u8, 9);
    data::cutout_(x, d, 6, 200);
    int erased = 0;
    const std::vector<int> v = x.to_vector<int>();
    for (int i = 0; i < 144; ++i) {
      REQUIRE((v[i] == 9 || v[i] == 200));
      REQUIRE(v[i] == v[144 + i]);
      erased += v[i] == 200;
    }
    smallest = std::min(smallest, erased);
    largest = std::max(largest, erased);
  }
  CHECK(largest == 36);
  CHECK(smallest < 20);  // cut off at the border

  int changed = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Tensor x = filled({1, 1, 32, 32}, f32, 1);
    data::random_erasing_(x, d, {.p = 0.5f, .value = -3});
    int erased = 0;
    for (const double v : x.to_vector<double>()) erased += v == -3;
    if (erased == 0) continue;
    ++changed;
    REQUIRE((erased >= 0.01 * 1024 && erased <= 0.36 * 1024));  // 2 % to 33 %, up to rounding of the sides
  }
  CHECK((changed > 140 && changed < 260));
  Tensor x = filled({1, 1, 4, 4}, u8, 0);
  CHECK_THROWS_WITH(data::random_erasing_(x, d, {.scale = {0.5f, 0.1f}}), Contains("scale must be a range in (0, 1]"));
  CHECK_THROWS_WITH(data::cutout_(x, d, 0), Contains("the size must be positive"));
}

TEST_CASE("MixUp and CutMix: targets say what the images hold") {
  Draws d = draws();
  double weights = 0, squares = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Batch b{filled({3, 1, 8, 8}, f32, 0), tensor({0, 1, 2})};
    for (int i = 0; i < 3; ++i) std::fill_n(b.image.data<float>() + i * 64, 64, static_cast<float>(i));
    Batch cut = b;
    data::mixup(b, d, 4, 0.4f);
    REQUIRE(b.label.sizes() == Dims{3, 4});
    const double w = b.label[1][1].item<double>();
    REQUIRE(std::abs(b.label[1][0].item<double>() - (1 - w)) < 1e-6);           // the one before it
    REQUIRE(std::abs(b.label[0][2].item<double>() - (1 - w)) < 1e-6);           // the last before the first
    REQUIRE(std::abs(b.image[1][0][3][3].item<double>() - w) < 1e-6);           // w * 1 + (1 - w) * 0
    weights += w;
    squares += w * w;

    data::cutmix(cut, d, 3);
    double own = 0;
    for (const double v : cut.image[2].to_vector<double>()) {
      REQUIRE((v == 2 || v == 1));
      own += v == 2;
    }
    REQUIRE(std::abs(cut.label[2][2].item<double>() - own / 64) < 1e-6);
    REQUIRE(std::abs(cut.label[2][1].item<double>() - (1 - own / 64)) < 1e-6);
  }
  const double mean = weights / 300, variance = squares / 300 - mean * mean;  // of Beta(0.4, 0.4): 1/2 and 1/7.2
  CHECK(std::abs(mean - 0.5) < 0.09);
  CHECK(std::abs(variance - 1 / 7.2) < 0.03);
  Batch bad{filled({2, 1, 2, 2}, u8, 0), tensor({0, 5})};
  CHECK_THROWS_WITH(data::mixup(bad, d, 3), Contains("label 5 of sample 1 is not below the 3 classes"));
  CHECK_THROWS_WITH(data::cutmix(bad, d, 6, 0), Contains("alpha must be positive"));
}

TEST_CASE("cross_entropy takes the targets of MixUp: one-hot ones give what labels give") {
  const Tensor logits = random_tensor({4, 3}, 1), labels = tensor({0, 2, 1, 2});
  const Tensor soft = data::soft_targets(labels, 3).to(f64);
  CHECK(all_close(cross_entropy(logits, soft), cross_entropy(logits, labels)));
  CHECK(all_close(cross_entropy(logits, soft, {.label_smoothing = 0.2}),
                  cross_entropy(logits, labels, {.label_smoothing = 0.2})));
  const Tensor half = (soft + data::soft_targets(tensor({1, 2, 0, 0}), 3).to(f64)) * 0.5;
  const Tensor expected = (cross_entropy(logits, labels) + cross_entropy(logits, tensor({1, 2, 0, 0}))) * 0.5;
  CHECK(all_close(cross_entropy(logits, half), expected));
}

namespace {

Tensor waves() {  // sin(0), sin(1), ... of [1, 1, 4, 5]
  const Tensor t = Tensor::allocate({1, 1, 4, 5}, f32);
  for (int i = 0; i < 20; ++i) t.data<float>()[i] = std::sin(static_cast<float>(i));
  return t;
}

}  // namespace

TEST_CASE("affine: torchvision's matrix, bilinear; rotations by quarter turns; what chance may do") {
  const data::Affine map{.degrees = 20, .right = 1, .down = -1, .scale = 1.25f, .shear_x = 10, .shear_y = 5};
  CHECK(close(data::affine(waves(), map, {.interpolation = data::Interpolation::bilinear}),
              {-0.42456, -0.7107, -0.44743, 0.34186, 0.79691, 0.02466, -0.64831, -0.75805, -0.22076, 0.54198,
               0.14906, -0.38005, -0.85429, -0.53435, 0.12491, 0.0, -0.09998, -0.31621, -0.40801, -0.06408}, 2e-5));
  const Tensor square = ramp(5, 5);
  // clockwise here, counterclockwise there
  CHECK(same_bits(data::affine(square, {.degrees = -90}), data::rotate(square, 90)));
  CHECK(same_bits(data::affine(square, {}), square));
  CHECK(close(data::affine(ramp(2, 3), {.right = 1}, {.fill = 7}), {7, 0, 37, 7, 111, 148}, 0));
  Draws d = draws();
  CHECK(same_bits(data::random_affine(square, d, {}), square));
  const Tensor many = filled({40, 1, 9, 9}, f32, 1), moved = data::random_affine(many, d, {.translate = {0.2f, 0}});
  std::set<double> rows_sums;  // shifts by at most 1.8 pixels to the sides: whole columns are missing
  for (std::int64_t i = 0; i < 40; ++i) rows_sums.insert(sum(moved[i]).item<double>());
  CHECK(rows_sums == std::set<double>{63, 72, 81});
  CHECK_THROWS_WITH(data::random_affine(square, d, {.translate = {2, 0}}),
                    Contains("parts of the image between 0 and 1, found 2"));
  CHECK_THROWS_WITH(data::random_affine(square, d, {.scale = {0, 1}}),
                    Contains("scale must be a range of positive numbers"));
  CHECK_THROWS_WITH(data::affine(square, {.scale = 0}), Contains("scale must be positive"));
}

TEST_CASE("gaussian_blur: torchvision's values, mirrored at the borders") {
  CHECK(close(data::gaussian_blur(waves(), 3, 0.8f),
              {-0.09315, 0.23853, 0.6154, 0.42647, 0.15786, -0.417, -0.14337, 0.3371, 0.50764, 0.45245,
               -0.50107, -0.5131, -0.27532, 0.21559, 0.47212, -0.25885, -0.49022, -0.59171, -0.14918, 0.19663}, 2e-5));
  CHECK(close(data::gaussian_blur(waves(), 5, 1.3f),
              {-0.11271, 0.01861, 0.25111, 0.40468, 0.43699, -0.18651, -0.07822, 0.13554, 0.3067, 0.36155,
               -0.3668, -0.29833, -0.10457, 0.12205, 0.23176, -0.4655, -0.4121, -0.21875, 0.04337, 0.18301}, 2e-5));
  CHECK(same_bits(data::gaussian_blur(filled({2, 3, 4, 4}, u8, 200), 3, 1), filled({2, 3, 4, 4}, u8, 200)));
  CHECK(same_bits(data::gaussian_blur(ramp(5, 7), 1, 1), ramp(5, 7)));
  Draws d = draws();
  const Tensor two = cat({ramp(5, 7), ramp(5, 7)}), blurred = data::random_gaussian_blur(two, d, 3);
  CHECK(!same_bits(blurred[0], blurred[1]));
  CHECK_THROWS_WITH(data::gaussian_blur(ramp(5, 7), 4, 1), Contains("kernel_size must be odd and positive, got 4"));
  CHECK_THROWS_WITH(data::gaussian_blur(ramp(2, 7), 5, 1), Contains("images of 2 x 7 are too small for a window of 5"));
  CHECK_THROWS_WITH(data::gaussian_blur(ramp(5, 7), 3, 0), Contains("sigma must be positive"));
}

TEST_CASE("grayscale: weighted channels, once or three times, and by chance") {
  const Tensor image = Tensor::allocate({1, 3, 1, 2}, u8);
  const std::vector<std::uint8_t> values{255, 10, 255, 100, 255, 200};  // white, and a colour
  std::copy(values.begin(), values.end(), image.data<std::uint8_t>());
  CHECK(close(data::grayscale(image), {255, 84}, 0));
  CHECK(close(data::grayscale(image, 3), {255, 84, 255, 84, 255, 84}, 0));
  CHECK(close(data::grayscale(image.to(f32)), {254.9745, 84.489}, 1e-3));
  CHECK(same_bits(data::grayscale(ramp(2, 3)), ramp(2, 3)));
  CHECK(data::grayscale(ramp(2, 3), 3).sizes() == Dims{1, 3, 2, 3});
  Draws d = draws();
  Tensor many = image.expand({200, 3, 1, 2}).contiguous();
  data::random_grayscale_(many, d, 0.25f);
  int gray = 0;
  for (std::int64_t i = 0; i < 200; ++i) gray += many[{i, 0, 0, 1}].item<int>() == 84;
  CHECK((gray > 25 && gray < 80));
  CHECK_THROWS_WITH(data::grayscale(image, 2), Contains("the result has 1 or 3 channels, not 2"));
  CHECK_THROWS_WITH(data::grayscale(zeros({1, 2, 3, 3})), Contains("with 1 or 3 channels, got f32[1, 2, 3, 3]"));
}

TEST_CASE("JPEG: every picture is compressed by itself, near what it was") {
  Tensor images = data::synthetic_color_digits(12, 4).images.clone();
  const Tensor before = images.clone();
  Draws d = draws();
  data::random_jpeg_(images, d, {5, 100});
  CHECK(!equal(images, before));
  CHECK(mean(abs(images.to(f32) - before.to(f32))).item<float>() < 12);
  for (const int quality : {20, 90}) {  // each as its own file would be
    Tensor some = before.slice(0, 0, 2).clone();
    data::random_jpeg_(some, d, {quality, quality});
    for (int b = 0; b < 2; ++b) CHECK(equal(some[b], io::decode_image(io::encode_jpeg(before[b], quality), "it")));
  }
  CHECK_THROWS_WITH(data::random_jpeg_(images, d, {0, 50}), Contains("a range from 1 to 100, got 0 to 50"));
  Tensor floats = images.to(f32);
  CHECK_THROWS_WITH(data::random_jpeg_(floats, d, {10, 50}), Contains("needs u8 images"));
}

TEST_CASE("linear_transformation: what whitens makes the covariance of the pixels 1") {
  manual_seed(test::seed());
  MANTISSA_PRINT_SEED();
  const Tensor images = rand({200, 2, 2, 3}), rows = images.reshape({200, 12}), centre = rows.mean({0});
  const auto [values, vectors] = eigh(cov(transpose(rows, 0, 1)));
  const Tensor white = data::linear_transformation(images, vectors / sqrt(values), centre);
  CHECK(white.sizes() == images.sizes());
  CHECK(allclose(cov(transpose(white.reshape({200, 12}), 0, 1)), eye(12), 1e-3, 1e-3));
  CHECK_THROWS_WITH(data::linear_transformation(images, eye(3), centre),
                    Contains("images of 12 values need a matrix [12, 12] and a mean [12], got f32[3, 3]"));
}

TEST_CASE("random_shorter_side: one of the sizes, and no side that is too long") {
  Draws d = draws();
  std::set<std::int64_t> seen;
  for (int i = 0; i < 40; ++i) {
    const Tensor small = data::random_shorter_side(zeros({1, 1, 20, 40}), {5, 10, 30}, d, 50);
    CHECK(small.size(3) == 2 * small.size(2));
    seen.insert(small.size(2));
  }
  CHECK(seen == std::set<std::int64_t>{5, 10, 25});  // 30 would make the other side 60
  CHECK_THROWS_WITH(data::random_shorter_side(zeros({1, 1, 2, 2}), {}, d), Contains("needs sizes to choose from"));
}

TEST_CASE("every random transform gives the same batches for any number of threads") {
  const auto batches = [](int threads) {
    data::Loader loader = data::Pipeline(data::synthetic_color_digits(40, 3))
                              .shuffle(7)
                              .random_crop(3)
                              .random_flip()
                              .random_vertical_flip()
                              .random_rotation(15)
                              .random_resized_crop(24)
                              .color_jitter({0.4f, 0.4f, 0.4f, 0.1f})
                              .random_affine({.degrees = 20, .translate = {0.1f, 0.2f}})
                              .gaussian_blur(3)
                              .random_grayscale(0.5f)
                              .random_jpeg({20, 80})
                              .random_erasing()
                              .cutout(4)
                              .mixup(10, 0.2f)
                              .cutmix(10)
                              .batch(8)
                              .threads(threads)
                              .loader();
    std::vector<Batch> all;
    Batch b;
    while (loader.next(b)) all.push_back(b);
    return all;
  };
  const std::vector<Batch> one = batches(0), three = batches(3);
  REQUIRE(one.size() == 5);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].image.sizes() == Dims{8, 3, 24, 24});
    CHECK(same_bits(one[i].image, three[i].image));
    CHECK(same_bits(one[i].label, three[i].label));
  }
}
