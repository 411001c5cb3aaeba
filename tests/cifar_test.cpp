// CIFAR's binary version from a folder and from an archive: bad files (C1 to C3), broken archives, the search order,
// and the real images if this machine has them.
#include "data/cifar.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "catch_compat.h"
#include "data_files.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::Cifar;
using data::Dataset;
using data::Split;

namespace {

// A CIFAR-10 record whose red pixels are all r, green r + 1, blue r + 2.
std::string record(int label, int r) {
  std::string s(1, static_cast<char>(label));
  for (int c = 0; c < 3; ++c) s += std::string(1024, static_cast<char>(r + c));
  return s;
}
// File i of 1 to 5 holds labels i and 10 - i, as red values 10 * i and 10 * i + 5.
std::string batch(int i) { return record(i, 10 * i) + record(10 - i, 10 * i + 5); }

std::string octal(std::size_t v, int digits) {
  std::string s(static_cast<std::size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, v >>= 3) s[static_cast<std::size_t>(i)] = static_cast<char>('0' + (v & 7));
  return s;
}
std::string tar_entry(const std::string& name, const std::string& content, char type = '0') {
  std::string h(512, '\0');
  h.replace(0, name.size(), name);
  h.replace(100, 7, "0000644");
  h.replace(124, 11, octal(content.size(), 11));
  h.replace(148, 8, "        ");
  h[156] = type;
  h.replace(257, 8, std::string("ustar\00000", 8));
  std::size_t sum = 0;
  for (const char c : h) sum += static_cast<unsigned char>(c);
  h.replace(148, 7, octal(sum, 6) + '\0');
  return h + content + std::string((512 - content.size() % 512) % 512, '\0');
}
const std::string end_of_tar(1024, '\0');

std::string archive() {
  std::string s = tar_entry("cifar-10-batches-bin/", "", '5') + tar_entry("pax", "30 mtime=1.5\n", 'x');
  for (const int i : {4, 2, 1, 5, 3})
    s += tar_entry("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin", batch(i));
  return s + tar_entry("cifar-10-batches-bin/readme.html", "<html>") +
         tar_entry("cifar-10-batches-bin/test_batch.bin", batch(0).substr(0, 3073)) + end_of_tar;
}

void put_folder(const std::string& dir) {
  std::filesystem::create_directories(dir);
  for (int i = 1; i <= 5; ++i) put_file(dir + "/data_batch_" + std::to_string(i) + ".bin", batch(i));
  put_file(dir + "/test_batch.bin", record(7, 1));
}

void check_pictures(const Dataset& train, const Dataset& test) {
  CHECK(train.images.sizes() == Dims{10, 3, 32, 32});
  CHECK(train.labels.to_vector<int>() == std::vector<int>{1, 9, 2, 8, 3, 7, 4, 6, 5, 5});
  const std::uint8_t* p = train.images.data<std::uint8_t>();
  CHECK((p[0] == 10 && p[1024] == 11 && p[2048] == 12 && p[9 * 3072 + 3071] == 57));
  CHECK(test.images.sizes() == Dims{1, 3, 32, 32});
  CHECK(train.classes == 10);
  CHECK(train.mean.size() == 3);
}

void refuses_archive(const std::string& bytes, const std::string& fragment) {
  const TempDir dir;
  put_file(dir / "a.tar.gz", gzip(bytes));
  const std::string message = message_of([&] { data::load_cifar(dir / "a.tar.gz", Cifar::ten, Split::train); });
  CHECK(message.find(dir / "a.tar.gz") == 0);
  CHECK_THAT(message, Contains(fragment));
}

}  // namespace

TEST_CASE("cifar: the folder and the archive give the same pictures") {
  const TempDir dir;
  put_folder(dir / "bin");
  check_pictures(data::load_cifar(dir / "bin", Cifar::ten, Split::train),
                 data::load_cifar(dir / "bin", Cifar::ten, Split::test));
  put_file(dir / "a.tar.gz", gzip(archive()));
  put_file(dir / "a.tar", archive());
  for (const char* name : {"a.tar.gz", "a.tar"})
    check_pictures(data::load_cifar(dir / name, Cifar::ten, Split::train),
                   data::load_cifar(dir / name, Cifar::ten, Split::test));
}

TEST_CASE("cifar-100: classes and superclasses") {
  const TempDir dir;
  const std::string picture = record(0, 1).substr(1);
  put_file(dir / "train.bin", std::string("\x03\x63", 2) + picture + std::string("\x13\x00", 2) + picture);
  put_file(dir / "test.bin", std::string("\x03\x64", 2) + picture);
  CHECK(data::load_cifar(dir.path(), Cifar::hundred, Split::train).labels.to_vector<int>() == std::vector<int>{99, 0});
  const Dataset coarse = data::load_cifar(dir.path(), Cifar::hundred_coarse, Split::train);
  CHECK(coarse.labels.to_vector<int>() == std::vector<int>{3, 19});
  CHECK(coarse.classes == 20);
  CHECK_THROWS_WITH(data::load_cifar(dir.path(), Cifar::hundred, Split::test),
                    Contains("label 100 of picture 0 is not below the 100"));
  put_file(dir / "fine_label_names.txt", "apple\npear\n");
  CHECK_THROWS_WITH(data::load_cifar(dir.path(), Cifar::hundred, Split::train),
                    Contains("names 2 classes, expected 100"));
}

TEST_CASE("C1: a size that is not a multiple of a record's") {
  const TempDir dir;
  put_folder(dir.path());
  for (const std::size_t size : {0u, 1u, 3072u, 3074u, 6145u}) {
    put_file(dir / "data_batch_3.bin", batch(3).append(10, 'x').substr(0, size));
    CHECK_THROWS_AS(data::load_cifar(dir.path(), Cifar::ten, Split::train), FormatError);
    CHECK_THROWS_WITH(data::load_cifar(dir.path(), Cifar::ten, Split::train),
                      Contains("data_batch_3.bin: has " + std::to_string(size) + " bytes, which is not a multiple"));
  }
  put_file(dir / "data_batch_3.bin", batch(3).substr(0, 3073));
  CHECK_THROWS_WITH(data::load_cifar(dir.path(), Cifar::ten, Split::train),
                    Contains("has 1 pictures, another file of the same set has 2"));
  put_file(dir / "data_batch_3.bin", "<!DOCTYPE html><html>");
  CHECK_THROWS_WITH(data::load_cifar(dir.path(), Cifar::ten, Split::train), Contains("looks like an HTML page"));
  std::filesystem::remove(dir / "data_batch_3.bin");
  CHECK_THROWS_WITH(data::load_cifar(dir.path(), Cifar::ten, Split::train), Contains("has no data_batch_3.bin"));
  REQUIRE(::mkfifo((dir / "data_batch_3.bin").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(data::load_cifar(dir.path(), Cifar::ten, Split::train), Contains("not a regular file"));
}

TEST_CASE("C2: a label out of range") {
  const TempDir dir;
  put_folder(dir.path());
  put_file(dir / "data_batch_4.bin", record(1, 1) + record(200, 1));
  CHECK_THROWS_AS(data::load_cifar(dir.path(), Cifar::ten, Split::train), FormatError);
  CHECK_THROWS_WITH(data::load_cifar(dir.path(), Cifar::ten, Split::train),
                    Contains("data_batch_4.bin: label 200 of picture 1 is not below the 10 classes"));
}

TEST_CASE("C3: an archive with links, devices, or without the files") {
  refuses_archive(tar_entry("data_batch_1.bin", "", '2') + archive(), "holds a link");
  refuses_archive(tar_entry("data_batch_1.bin", "", '1') + archive(), "holds a link");
  refuses_archive(tar_entry("/dev/zero", "", '3') + archive(), "neither a file nor a folder");
  refuses_archive(tar_entry("x/data_batch_1.bin", batch(1)) + archive(), "comes twice");
  refuses_archive(tar_entry("other", "abc") + end_of_tar, "has no data_batch_1.bin");
  refuses_archive(std::string(5000, 'x'), "is not a tar archive");
  refuses_archive(archive() + "x", "data after the end");
  refuses_archive("", "has no data_batch_1.bin");
  std::string huge = archive();  // a size that the archive cannot hold
  huge.replace(1024 + 512 + 124, 11, "77777777777");
  refuses_archive(huge, "");
}

TEST_CASE("cifar: an archive cut anywhere is refused, and two thousand mutations do no harm") {
  const TempDir dir;
  const std::string packed = gzip(archive());
  for (std::size_t n = 1; n < packed.size(); n += 7) {
    put_file(dir / "a.tar.gz", packed.substr(0, n));
    CHECK_THROWS_AS(data::load_cifar(dir / "a.tar.gz", Cifar::ten, Split::train), FormatError);
  }
  INFO("MANTISSA_TEST_SEED=" << test::seed());
  std::mt19937_64 random(test::seed());
  const std::string originals[] = {archive(), packed};
  int refused = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes = originals[trial % 2];
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes.erase(at, random() % 600); break;
        case 1: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 600)); break;
        default: {  // most of them in the header of an entry
          const std::size_t in_header = at - at % 512 + random() % 160;
          bytes[in_header < bytes.size() ? in_header : at] = static_cast<char>(random());
        }
      }
    }
    put_file(dir / "m", bytes);
    try {
      const Dataset set = data::load_cifar(dir / "m", Cifar::ten, Split::train);
      REQUIRE(set.size() % 5 == 0);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("cifar: found in the usual folders, unpacked or not, and drawn when there is none") {
  const TempDir dir;
  const Variable data_folder("MANTISSA_DATA", dir / "env");
  const Variable xdg("XDG_DATA_HOME", dir / "xdg");
  if (std::filesystem::exists("/usr/share/datasets/cifar10")) MANTISSA_SKIP("this machine has a cifar10 package");
  const Dataset drawn = data::load_dataset("cifar10", Split::test);
  CHECK(drawn.name == "synthetic-color");
  CHECK(drawn.images.sizes() == Dims{2000, 3, 32, 32});
  CHECK_THAT(drawn.source, Contains("no cifar10 was found in " + (dir / "env/cifar10")));
  double sum = 0, squares = 0;
  for (const double x : drawn.images.to_vector<double>()) sum += x / 255, squares += x / 255 * (x / 255);
  const double n = static_cast<double>(drawn.images.numel());
  CHECK(std::abs(sum / n - drawn.mean[0]) < 0.01);
  CHECK(std::abs(std::sqrt(squares / n - sum / n * (sum / n)) - drawn.std[0]) < 0.01);

  std::filesystem::create_directories(dir / "xdg/mantissa/datasets/cifar10");
  put_file(dir / "xdg/mantissa/datasets/cifar10/cifar-10-binary.tar.gz", gzip(archive()));
  CHECK_THAT(data::load_dataset("cifar10").source, Contains("xdg/mantissa/datasets/cifar10/cifar-10-binary.tar.gz"));
  put_folder(dir / "env/cifar-10-batches-bin");
  CHECK_THAT(data::load_dataset("cifar10").source, Contains("env/cifar-10-batches-bin"));
  CHECK(data::load_dataset("cifar10", Split::test, dir / "env").size() == 1);
  CHECK_THROWS_WITH(data::load_dataset("cifar10", Split::test, dir / "xdg"),
                    Contains("holds no cifar10: expected data_batch_1.bin"));
}

TEST_CASE("cifar: through the pipeline, each channel by its own mean and std") {
  const TempDir dir;
  put_folder(dir.path());
  for (auto [image, label] : data::cifar10(dir.path()).batch(10)) {
    CHECK(image.sizes() == Dims{10, 3, 32, 32});
    CHECK(std::abs(image.data<float>()[0] - (10 / 255.0f - 0.4914f) / 0.2470f) < 1e-5f);
    CHECK(std::abs(image.data<float>()[2048] - (12 / 255.0f - 0.4465f) / 0.2616f) < 1e-5f);
  }
}

TEST_CASE("real data: CIFAR-10 has ten classes alike, and about the published mean and std") {
  const Dataset train = data::load_dataset("cifar10");
  if (train.name != "cifar10") MANTISSA_SKIP(train.source);
  INFO(train.source);
  CHECK(train.images.sizes() == Dims{50000, 3, 32, 32});
  CHECK(data::load_dataset("cifar10", Split::test).images.sizes() == Dims{10000, 3, 32, 32});
  std::vector<int> per_class(10);
  for (const auto label : train.labels.to_vector<std::int64_t>()) ++per_class[static_cast<std::size_t>(label)];
  CHECK(per_class == std::vector<int>(10, 5000));
  for (int c = 0; c < 3; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < 50000; ++i) {
      const std::uint8_t* p = train.images.data<std::uint8_t>() + (i * 3 + c) * 1024;
      for (int k = 0; k < 1024; ++k) sum += p[k] / 255.0, squares += p[k] / 255.0 * (p[k] / 255.0);
    }
    const double n = 50000 * 1024.0;
    CHECK(std::abs(sum / n - train.mean[static_cast<std::size_t>(c)]) < 3e-3);
    CHECK(std::abs(std::sqrt(squares / n - sum / n * (sum / n)) - train.std[static_cast<std::size_t>(c)]) < 3e-3);
  }
}
