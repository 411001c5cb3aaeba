// Data sets: the IDX reader with bad files (I1 to I6), the search order, transforms, the synthetic digits, and the real
// sets if this machine has them.
#include "data/mnist.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "catch_compat.h"
#include "core/parallel.h"
#include "data/synthetic.h"
#include "data/transforms.h"
#include "data_files.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::Dataset;
using data::Split;

namespace {

std::string word(std::uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}
std::string images_file(std::uint32_t n, std::uint32_t h = 3, std::uint32_t w = 2) {
  std::string s = word(0x803) + word(n) + word(h) + word(w);
  for (std::uint32_t i = 0; i < n * h * w; ++i) s += static_cast<char>(i);
  return s;
}
std::string labels_file(const std::string& labels) {
  return word(0x801) + word(static_cast<std::uint32_t>(labels.size())) + labels;
}

void put_set(const std::string& folder, const std::string& images, const std::string& labels,
             const std::string& ending = "") {
  std::filesystem::create_directories(folder);
  for (const char* part : {"train", "t10k"}) {
    put_file(folder + "/" + part + "-images-idx3-ubyte" + ending, images);
    put_file(folder + "/" + part + "-labels-idx1-ubyte" + ending, labels);
  }
}

void refuses_idx(const std::string& bytes, int rank, const std::string& fragment) {
  const TempDir dir;
  put_file(dir / "f", bytes);
  REQUIRE_THROWS_AS(data::read_idx(dir / "f", rank), FormatError);
  const std::string message = message_of([&] { data::read_idx(dir / "f", rank); });
  CHECK(message.find(dir / "f") == 0);
  CHECK_THAT(message, Contains(fragment));
}

Tensor pixels(const std::vector<std::uint8_t>& v, const Dims& sizes) {
  return from_data<std::uint8_t>(v, sizes);
}

}  // namespace

TEST_CASE("idx: plain and gzip give the same") {
  const TempDir dir;
  put_file(dir / "plain", images_file(5));
  put_file(dir / "packed", gzip(images_file(5)));
  const Tensor a = data::read_idx(dir / "plain", 3), b = data::read_idx(dir / "packed", 3);
  CHECK(a.sizes() == Dims{5, 3, 2});
  CHECK(a.dtype() == u8);
  CHECK(a.to_vector<int>() == b.to_vector<int>());
  CHECK(a.to_vector<int>()[29] == 29);
}

TEST_CASE("I1: wrong magic number") {
  refuses_idx(labels_file("abc"), 3, "has magic number 0x00000801, expected 0x00000803");
  refuses_idx(images_file(2), 1, "has magic number 0x00000803, expected 0x00000801");
  refuses_idx(std::string(100, 'x'), 3, "expected 0x00000803");
  refuses_idx(word(0xd03) + word(0), 3, "expected 0x00000803");  // floats
  refuses_idx("", 3, "is empty");
  refuses_idx("ab", 3, "too short");
}
TEST_CASE("I2: a count of 2^32-1") {
  const std::string header = word(0x803) + word(0xffffffff) + word(28) + word(28);
  refuses_idx(header + "x", 3, "promises 3367254359280 bytes");
  refuses_idx(gzip(header + "x"), 3, "promises 3367254359280 bytes");
  refuses_idx(word(0x803) + word(0xffffffff) + word(0xffffffff) + word(0xffffffff), 3, "more elements than");
}
TEST_CASE("I3: truncated, plain and gzip, at every byte") {
  const std::string plain = images_file(3), packed = gzip(plain);
  for (std::size_t n = 0; n < plain.size(); ++n) refuses_idx(plain.substr(0, n), 3, "");
  for (std::size_t n = 0; n < packed.size(); ++n) refuses_idx(packed.substr(0, n), 3, "");
  refuses_idx(plain.substr(0, plain.size() - 1), 3,
              "is truncated: it has 17 bytes of data, its header promises 18");
  refuses_idx(packed.substr(0, packed.size() - 1), 3, "is truncated");
}
TEST_CASE("I4: extra bytes, and damaged gzip data") {
  refuses_idx(images_file(3) + "x", 3, "extra bytes");
  refuses_idx(gzip(images_file(3) + "x"), 3, "extra bytes");
  refuses_idx(gzip(images_file(3)) + "x", 3, "extra bytes");
  std::string damaged = gzip(images_file(3));
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);  // its checksum
  refuses_idx(damaged, 3, "damaged gzip data (incorrect data check)");
}
TEST_CASE("I5: not as many labels as images") {
  const TempDir dir;
  put_set(dir.path(), images_file(3), labels_file(std::string("\0\1", 2)));
  CHECK_THROWS_WITH(data::load_idx_folder(dir.path(), "mine", Split::train),
                    Contains("has 3 images") && Contains("has 2 labels"));
  CHECK_THROWS_AS(data::load_idx_folder(dir.path(), "mine", Split::train), FormatError);
}
TEST_CASE("I6: a label that is not below the number of classes") {
  const TempDir dir;
  put_set(dir.path(), images_file(3), labels_file(std::string("\0\x0c\1", 3)));
  CHECK_THROWS_WITH(data::load_idx_folder(dir.path(), "mine", Split::test),
                    Contains("label 12 at index 1 is not below the 10 classes"));
  CHECK(data::load_idx_folder(dir.path(), "mine", Split::test, 13).classes == 13);
}
TEST_CASE("idx: an HTML page and a git-lfs pointer are recognised") {
  refuses_idx("<!doctype html>\n<html><head><title>403 Forbidden</title>", 3, "looks like an HTML page");
  refuses_idx("\n  <HTML>", 3, "looks like an HTML page");
  refuses_idx("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9912422\n", 1,
              "git lfs pull");
}
TEST_CASE("idx: four thousand mutations give a tensor or a FormatError") {
  const TempDir dir;
  const std::uint64_t seed = test::seed();
  INFO("MANTISSA_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::string originals[] = {images_file(5), gzip(images_file(5))};
  int refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::string bytes = originals[trial % 2];
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes.erase(at, random() % 5); break;
        case 1: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 20)); break;
        default: bytes[at] = static_cast<char>(random());
      }
    }
    put_file(dir / "m", bytes);
    try {
      const Tensor t = data::read_idx(dir / "m", 3);
      REQUIRE(t.numel() <= static_cast<std::int64_t>(bytes.size()) * 1100);
    } catch (const FormatError&) {
      ++refused;
    }
  }
  CHECK(refused > 2000);
}
TEST_CASE("idx: no images at all") {
  const TempDir dir;
  put_set(dir.path(), images_file(0), labels_file(""));
  CHECK_THROWS_WITH(data::load_idx_folder(dir.path(), "mine", Split::train), Contains("holds no images"));
}

TEST_CASE("dataset: a folder becomes images, labels and a line that says where from") {
  const TempDir dir;
  put_set(dir.path(), gzip(images_file(3)), gzip(labels_file(std::string("\2\0\1", 3))), ".gz");
  const Dataset set = data::load_dataset("mnist", Split::train, dir.path());
  CHECK(set.images.sizes() == Dims{3, 1, 3, 2});
  CHECK(set.labels.to_vector<int>() == std::vector<int>{2, 0, 1});
  CHECK(set.source == "mnist: 3 training images from " + dir.path());
  const std::vector<std::int64_t> wanted{2, 0, 2};
  const data::Batch batch = set.get_batch(wanted);
  CHECK(batch.label.to_vector<int>() == std::vector<int>{1, 2, 1});
  CHECK(batch.image.to_vector<int>()[0] == 12);
  const std::vector<std::int64_t> outside{0, 3};
  CHECK_THROWS_WITH(set.get_batch(outside), Contains("sample 3: the index is not in a dataset of 3"));
  CHECK(set.first(2).images.sizes() == Dims{2, 1, 3, 2});
  CHECK(set.first(3).source == set.source);
  if (!set.source.empty()) CHECK(set.first(2).source == set.source + ", the first 2 of them");
  CHECK_THROWS_WITH(set.first(4), Contains("has 3 samples"));
}

TEST_CASE("dataset: names with a dot before idx") {
  const TempDir dir;
  put_file(dir / "train-images.idx3-ubyte", images_file(1));
  put_file(dir / "train-labels.idx1-ubyte", labels_file("\1"));
  CHECK(data::load_dataset("mnist", Split::train, dir.path()).size() == 1);
}

TEST_CASE("K4: a folder without the files, or with some of them") {
  const TempDir dir;
  CHECK_THROWS_WITH(data::load_dataset("mnist", Split::train, dir.path()),
                    Contains("holds no mnist") && Contains("train-images-idx3-ubyte"));
  CHECK_THROWS_WITH(data::load_dataset("mnist", Split::train, dir / "none"), Contains("there is no folder"));
  put_file(dir / "train-images-idx3-ubyte", images_file(1));
  CHECK_THROWS_WITH(data::load_dataset("mnist", Split::train, dir.path()),
                    Contains("has no train-labels-idx1-ubyte"));
  CHECK_THROWS_WITH(data::load_dataset("mnist", Split::test, dir.path()),
                    Contains("has no t10k-images-idx3-ubyte"));
  CHECK_THROWS_WITH(data::load_dataset("imagenet"), Contains("unknown dataset \"imagenet\""));
}

TEST_CASE("dataset: searched in $MANTISSA_DATA, the XDG folder, and at last drawn") {
  const TempDir dir;
  const Variable data_folder("MANTISSA_DATA", dir / "env");
  const Variable xdg("XDG_DATA_HOME", dir / "xdg");
  const std::string label = labels_file("\1");
  if (std::filesystem::exists("/usr/share/datasets/mnist"))
    MANTISSA_SKIP("this machine has an mnist package");
  const Dataset drawn = data::load_dataset("mnist", Split::test);
  CHECK(drawn.name == "synthetic");
  CHECK_THAT(drawn.source,
             Contains("synthetic digits: 2000 pictures") && Contains("no mnist was found in " + dir.path()));
  put_set(dir / "xdg/mantissa/datasets/mnist", images_file(1), label);
  CHECK_THAT(data::load_dataset("mnist").source, Contains(dir / "xdg/mantissa/datasets/mnist"));
  put_set(dir / "env", images_file(1), label);
  CHECK_THAT(data::load_dataset("mnist").source, Contains("from " + (dir / "env")));
  put_set(dir / "env/mnist", images_file(1), label);
  CHECK_THAT(data::load_dataset("mnist").source, Contains("from " + (dir / "env/mnist")));
}

TEST_CASE("transforms: normalize") {
  const Tensor x = pixels({0, 255, 51, 102}, {1, 2, 1, 2});
  const Tensor y = data::normalize(x, {0.5f, 0.0f}, {0.5f, 2.0f});
  CHECK(y.dtype() == f32);
  const std::vector<float> expected{-1, 1, 0.1f, 0.2f};
  for (int i = 0; i < 4; ++i) CHECK(std::abs(y.data<float>()[i] - expected[i]) < 1e-6f);
  const Tensor z = data::normalize(y, {1.0f}, {2.0f});
  CHECK(z.data<float>()[0] == -1.0f);
  CHECK_THROWS_WITH(data::normalize(x, {0.0f}, {0.0f}), Contains("std must be positive"));
  CHECK_THROWS_WITH(data::normalize(zeros({2}), {0.0f}, {1.0f}),
                    Contains("expected contiguous u8 or f32 images"));
}

TEST_CASE("transforms: a flip mirrors every row, or nothing") {
  for (const Dtype dtype : {u8, f32}) {
    data::Draws draws(1, data::Purpose::augment, 0);
    Tensor x = Tensor::allocate({1, 1, 2, 3}, dtype);
    x.copy_(pixels({1, 2, 3, 4, 5, 6}, {1, 1, 2, 3}));
    Tensor y = x.as_strided(x.sizes(), x.strides());
    data::random_flip_(y, draws, 1.0f);
    CHECK(x.to_vector<int>() == std::vector<int>{3, 2, 1, 6, 5, 4});
    data::random_flip_(y, draws, 0.0f);
    CHECK(x.to_vector<int>() == std::vector<int>{3, 2, 1, 6, 5, 4});
  }
  Tensor many = zeros({1000, 1, 1, 2}, {.dtype = u8});
  for (int i = 0; i < 1000; ++i) many.data<std::uint8_t>()[2 * i] = 1;
  data::Draws draws(1, data::Purpose::augment, 0);
  data::random_flip_(many, draws);
  int flipped = 0;
  for (int i = 0; i < 1000; ++i) flipped += many.data<std::uint8_t>()[2 * i + 1];
  CHECK(flipped > 400);
  CHECK(flipped < 600);
}

TEST_CASE("transforms: a crop is a shifted copy, every shift occurs, and 0 padding changes nothing") {
  const Tensor x = pixels({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3});
  data::Draws draws(1, data::Purpose::augment, 0);
  CHECK(data::random_crop(x, 0, draws).to_vector<int>() == x.to_vector<int>());
  std::vector<int> seen(25);
  for (int trial = 0; trial < 1000; ++trial) {
    const std::vector<int> y = data::random_crop(x, 2, draws).to_vector<int>();
    int matches = 0;
    for (int dy = -2; dy <= 2; ++dy)
      for (int dx = -2; dx <= 2; ++dx) {
        bool same = true;
        for (int r = 0; r < 3; ++r)
          for (int c = 0; c < 3; ++c) {
            const bool inside = r + dy >= 0 && r + dy < 3 && c + dx >= 0 && c + dx < 3;
            same &= y[r * 3 + c] == (inside ? 1 + (r + dy) * 3 + c + dx : 0);
          }
        if (same) ++matches, ++seen[(dy + 2) * 5 + dx + 2];
      }
    REQUIRE(matches == 1);
  }
  for (const int n : seen) CHECK(n > 0);
}

TEST_CASE("draws: streams differ by seed, purpose, epoch and batch") {
  using data::Purpose;
  const auto first = [](std::uint64_t seed, Purpose p, std::uint64_t epoch, std::uint64_t batch) {
    return data::Draws(seed, p, epoch, batch).bits();
  };
  const std::uint32_t base = first(1, Purpose::augment, 2, 3);
  CHECK(base == first(1, Purpose::augment, 2, 3));
  CHECK(base != first(2, Purpose::augment, 2, 3));
  CHECK(base != first(1, Purpose::shuffle, 2, 3));
  CHECK(base != first(1, Purpose::augment, 3, 3));
  CHECK(base != first(1, Purpose::augment, 2, 4));
  data::Draws draws(1, Purpose::augment, 0);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t v = draws.below(7);
    REQUIRE((v >= 0 && v < 7));
  }
  CHECK(draws.below(1) == 0);
}

TEST_CASE("synthetic digits: the same for any thread count, other by seed and part, and learnable") {
  const Dataset a = data::synthetic_digits(200, 1);
  const int threads = num_threads();
  set_num_threads(3);
  const Dataset b = data::synthetic_digits(200, 1);
  set_num_threads(threads);
  CHECK(std::memcmp(a.images.raw_data(), b.images.raw_data(), static_cast<std::size_t>(a.images.nbytes())) ==
        0);
  CHECK(a.labels.to_vector<int>() == b.labels.to_vector<int>());
  CHECK(a.labels.to_vector<int>() != data::synthetic_digits(200, 2).labels.to_vector<int>());
  CHECK(a.labels.to_vector<int>() != data::synthetic_digits(200, 1, 1).labels.to_vector<int>());

  // The nearest class mean, about the weakest possible classifier, must already be much better than chance.
  constexpr int pixels_each = 28 * 28;
  const Dataset train = data::synthetic_digits(2000), test = data::synthetic_digits(500, 0, 1);
  std::vector<double> mean(10 * pixels_each), count(10);
  double sum = 0, squares = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t label = train.labels.data<std::int64_t>()[i];
    ++count[label];
    for (int p = 0; p < pixels_each; ++p) {
      const double v = train.images.data<std::uint8_t>()[i * pixels_each + p] / 255.0;
      mean[label * pixels_each + p] += v;
      sum += v;
      squares += v * v;
    }
  }
  for (int c = 0; c < 10; ++c) CHECK(count[c] > 120);
  const double average = sum / (2000 * pixels_each);
  CHECK(std::abs(average - train.mean[0]) < 0.01);
  CHECK(std::abs(std::sqrt(squares / (2000 * pixels_each) - average * average) - train.std[0]) < 0.01);
  int right = 0;
  for (int i = 0; i < 500; ++i) {
    int best = 0;
    double nearest = 1e300;
    for (int c = 0; c < 10; ++c) {
      double d = 0;
      for (int p = 0; p < pixels_each; ++p) {
        const double diff = test.images.data<std::uint8_t>()[i * pixels_each + p] / 255.0 -
                            mean[c * pixels_each + p] / count[c];
        d += diff * diff;
      }
      if (d < nearest) nearest = d, best = c;
    }
    right += best == test.labels.data<std::int64_t>()[i];
  }
  INFO(right << " of 500 right");
  CHECK(right > 350);
}

TEST_CASE("real data: the sets of this machine have their published sizes, mean and std") {
  for (const char* name : {"fashion-mnist", "mnist"}) {
    const Dataset train = data::load_dataset(name);
    if (train.name != name) {
      WARN("skipped: " << train.source);
      continue;
    }
    INFO(train.source);
    const Dataset test = data::load_dataset(name, Split::test);
    CHECK(train.images.sizes() == Dims{60000, 1, 28, 28});
    CHECK(test.images.sizes() == Dims{10000, 1, 28, 28});
    std::vector<int> per_class(10);
    for (std::int64_t i = 0; i < 10000; ++i) ++per_class[test.labels.data<std::int64_t>()[i]];
    for (const int n : per_class) CHECK(n > 800);
    double sum = 0, squares = 0;
    const std::uint8_t* p = train.images.data<std::uint8_t>();
    for (std::int64_t i = 0; i < train.images.numel(); ++i) {
      sum += p[i] / 255.0;
      squares += p[i] / 255.0 * (p[i] / 255.0);
    }
    const double n = static_cast<double>(train.images.numel()), mean = sum / n;
    CHECK(std::abs(mean - train.mean[0]) < 1e-4);
    CHECK(std::abs(std::sqrt(squares / n - mean * mean) - train.std[0]) < 1e-4);
  }
}

TEST_CASE("real data: a folder that holds another known set is not taken for the one asked for") {
  const Dataset fashion = data::load_dataset("fashion-mnist", Split::test);
  if (fashion.name != "fashion-mnist") MANTISSA_SKIP(fashion.source);
  const std::string folder = fashion.source.substr(fashion.source.find(" from ") + 6);
  CHECK_THROWS_WITH(data::load_dataset("mnist", Split::test, folder),
                    Contains("holds the dataset fashion-mnist, not mnist"));
  const TempDir empty;
  const Variable data_folder("MANTISSA_DATA", folder);
  const Variable xdg("XDG_DATA_HOME", empty.path());
  CHECK(data::load_dataset("mnist", Split::test).source.find(" from " + folder) == std::string::npos);
}
