// Folders of images: classes, the center crop or a random crop of each image, and errors with the path.
#include "data/image_folder.h"

#include <cmath>
#include <filesystem>

#include "core/operators.h"
#include "core/ops.h"
#include "data/geometry.h"
#include "data/pipeline.h"
#include "data/subset.h"
#include "temp_dir.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::Batch;

namespace {

// Six images of two classes whose brightness grows to the right and downwards, wide and tall ones.
void put_pictures(const TempDir& dir) {
  for (int i = 0; i < 6; ++i) {
    const std::string folder = concat("photos/", i < 4 ? "a" : "b");
    std::filesystem::create_directories(dir / folder);
    const std::int64_t h = 40 + 7 * i, w = 90 - 11 * i;
    const Tensor down = arange(h).to(f32).reshape({1, h, 1}), right = arange(w).to(f32).reshape({1, 1, w});
    const Tensor picture = (down * 2.0 + right + tensor({0.0, 20.0, 40.0}).reshape({3, 1, 1})).to(u8);
    if (i % 2 == 0) io::write_png(dir / concat(folder, "/", i, ".png"), picture);
    else io::write_jpeg(dir / concat(folder, "/", i, ".jpg"), picture, 95);
  }
}
std::vector<Batch> batches_of(const data::SourcePtr& set, int threads, std::uint64_t seed = 7) {
  data::Loader loader = data::Pipeline(set).raw().shuffle(seed).random_flip().batch(4).threads(threads).loader();
  std::vector<Batch> all;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (Batch b; loader.next(b);) all.push_back(b);
  return all;
}

}  // namespace

TEST_CASE("image folder: classes by sub-folder, resized and cut, errors with the path") {
  const TempDir dir;
  for (const char* folder : {"/photos/cat/deep", "/photos/dog", "/photos/.hidden"})
    std::filesystem::create_directories(dir.path() + folder);
  const auto put = [&](const std::string& name, double value, std::int64_t h, std::int64_t w) {
    io::write_png(dir / name, full({3, h, w}, value, {.dtype = u8}));
  };
  put("photos/cat/b.png", 10, 40, 20);
  put("photos/cat/deep/a.PNG", 20, 20, 40);
  put("photos/dog/c.png", 30, 30, 30);
  put("photos/.hidden/x.png", 99, 4, 4);
  put_file(dir / "photos/dog/notes.txt", "not a picture");
  const data::SourcePtr set = data::image_folder(dir / "photos", {.size = 16});
  CHECK(set->size() == 3);
  CHECK(set->info().class_names == std::vector<std::string>{"cat", "dog"});
  data::Batch b;
  data::Pipeline(set).raw().batch(3).threads(2).loader().next(b);
  CHECK(b.image.sizes() == Dims{3, 3, 16, 16});
  CHECK(b.label.to_vector<int>() == std::vector<int>{0, 0, 1});
  for (int i = 0; i < 3; ++i)
    CHECK((b.image[i].min().item() == 10 * (i + 1) && b.image[i].max().item() == 10 * (i + 1)));
  data::Pipeline(set).batch(3).loader().next(b);
  CHECK(std::abs(b.image[0][0][0][0].item() - (10 / 255.0f - 0.485f) / 0.229f) < 1e-5f);

  put_file(dir / "photos/dog/c.png", "<html>");
  CHECK_THROWS_WITH(data::Pipeline(set).batch(3).loader().next(b),
                    Contains("sample 2") && Contains("photos/dog/c.png: is neither a PNG nor a JPEG"));
  std::filesystem::create_directories(dir / "photos/emu");
  CHECK_THROWS_WITH(data::image_folder(dir / "photos"), Contains("photos/emu has no .png"));
  CHECK_THROWS_WITH(data::image_folder(dir / "none"), Contains("there is no folder"));
  CHECK_THROWS_WITH(data::image_folder(dir / "photos/cat/deep"), Contains("has no sub-folders"));
}

TEST_CASE("image folder: the middle is that of the whole picture, resized and then cut") {
  const TempDir dir;
  put_pictures(dir);
  const data::SourcePtr set = data::image_folder(dir / "photos", {.size = 24, .resize = 32});
  const Batch all = data::read_batch(*set, std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  for (int i = 0; i < 6; ++i) {
    const std::string path = concat("photos/", i < 4 ? "a" : "b", "/", i, i % 2 == 0 ? ".png" : ".jpg");
    const Tensor whole = io::read_image(dir / path).unsqueeze(0);
    CHECK(equal(all.image[i], data::center_crop(data::resize_shorter_side(whole, 32), 24, 24)[0]));
    CHECK(equal(io::read_pixels(dir / path), permute(whole[0], {1, 2, 0})));
  }
}

TEST_CASE("image folder: parts that are drawn differ by picture and epoch, and not by threads") {
  const TempDir dir;
  put_pictures(dir);
  const data::ResizedCropOptions small{.scale = {0.1f, 0.5f}};
  const data::SourcePtr set = data::image_folder(dir / "photos", {.size = 16, .random_crop = small});
  const auto one = batches_of(set, 0), three = batches_of(set, 3), other = batches_of(set, 0, 8);
  REQUIRE(one.size() == 4);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(same_bits(one[i].image, three[i].image));
    CHECK(same_bits(one[i].label, three[i].label));
  }
  CHECK(!equal(one[0].image, one[2].image));
  CHECK(!equal(one[0].image, other[0].image));
  // Crops, so that images still get brighter downwards, and of less than the whole image, so that they differ.
  for (const Batch& b : one) {
    const Tensor rows = b.image.to(f32).mean({1, 3});
    CHECK((rows.slice(1, 1) >= rows.slice(1, 0, 15)).all().item<bool>());
  }
  // Through a subset as well; and a single image, without a loader, is center-cropped.
  const auto half = batches_of(data::subset(set, {0, 1, 2}), 2);
  CHECK(half.size() == 2);
  CHECK(!equal(half[0].image, half[1].image));
  const std::vector<std::int64_t> first{0};
  const data::SourcePtr middle = data::image_folder(dir / "photos", {.size = 16});
  CHECK(equal(data::read_batch(*set, first).image, data::read_batch(*middle, first).image));
  const data::ResizedCropOptions wrong{.scale = {0.5f, 0.1f}};
  CHECK_THROWS_WITH(data::image_folder(dir / "photos", {.random_crop = wrong}), Contains("ranges of positive numbers"));
}
