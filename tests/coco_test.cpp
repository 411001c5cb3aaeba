// Pictures with boxes from files in COCO's format, and files that are not in it.
#include "data/coco.h"

#include <filesystem>

#include "bad_file.h"
#include "core/operators.h"
#include "core/ops.h"
#include "core/random.h"
#include "data/pipeline.h"
#include "io/image.h"
#include "nn/boxes.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

// Two pictures with white rectangles, whose boxes the file has, one without, and members that readers ignore.
const std::string good = R"({
  "info": {"year": 2017, "images": [{"id": 5}], "deep": [[[{"id": 1}]]]},
  "images": [
    {"license": 3, "file_name": "a.png", "height": 40, "width": 60, "id": 7},
    {"id": 12345678901, "file_name": "deep/b.png", "sizes": [{"id": 9, "file_name": "no"}]},
    {"id": 3, "file_name": "empty.png"}],
  "annotations": [
    {"segmentation": [[1.5, 2, 3, 4]], "area": 600.5, "iscrowd": 0, "image_id": 7, "bbox": [10, 5, 30, 20.0],
     "category_id": 18, "id": 1},
    {"image_id": 7, "bbox": [0.0, 0.0, 60, 40], "category_id": 18, "iscrowd": 1,
     "segmentation": {"counts": [1, 2], "size": [40, 60]}, "id": 2},
    {"image_id": 12345678901, "bbox": [20, 10, 5, 10], "category_id": 2, "id": 3},
    {"image_id": 12345678901, "bbox": [2, 3, 6, 4], "category_id": 18, "id": 4},
    {"image_id": 7, "bbox": [30, 20, 0, 4], "category_id": 2, "id": 5}],
  "categories": [{"supercategory": "animal", "id": 18, "name": "dog"}, {"id": 2, "name": "bicycle"}]
})";

struct Folder {
  Folder() {
    std::filesystem::create_directory(dir / "deep");
    write("a.png", 40, 60, {{10, 5, 30, 20}});
    write("deep/b.png", 20, 30, {{20, 10, 5, 10}, {2, 3, 6, 4}});
    write("empty.png", 16, 16, {});
    put_file(dir / "good.json", good);
  }
  void write(const std::string& name, std::int64_t h, std::int64_t w, std::vector<std::array<std::int64_t, 4>> boxes) {
    const Tensor picture = zeros({3, h, w}, {.dtype = u8});
    for (const auto& [x, y, wide, high] : boxes) picture.slice(1, y, y + high).slice(2, x, x + wide).fill_(255);
    io::write_png(dir / name, picture);
  }
  data::SourcePtr read(const data::CocoOptions& o = {.height = 40, .width = 60}) const {
    return data::coco_detection(dir.path(), dir / "good.json", o);
  }
  TempDir dir;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("pictures and boxes of a COCO file, resized") {
  const Folder folder;
  const data::SourcePtr set = folder.read();
  const data::Info info = set->info();
  CHECK(info.classes == 2);
  CHECK(info.class_names == std::vector<std::string>{"bicycle", "dog"});
  CHECK(info.targets == data::Targets::boxes);
  CHECK_THAT(info.source, Contains("3 pictures in ") && Contains("with 3 objects of 2 classes"));
  REQUIRE(set->size() == 3);
  for (auto [image, target] : data::Pipeline(set).raw().batch(3)) {
    CHECK(image.sizes() == Dims{3, 3, 40, 60});
    const Tensor expected = tensor({10.0f, 5.0f,  40.0f, 25.0f, 1.0f,  0.0f, 0.0f, 0.0f,  0.0f,  -1.0f,  //
                                    40.0f, 20.0f, 50.0f, 40.0f, 0.0f,  4.0f, 6.0f, 16.0f, 14.0f, 1.0f,   //
                                    0.0f,  0.0f,  0.0f,  0.0f,  -1.0f, 0.0f, 0.0f, 0.0f,  0.0f,  -1.0f});
    CHECK(equal(target, expected.reshape({3, 2, 5})));
    CHECK(equal(nn::masks_to_boxes(image.slice(1, 0, 1).squeeze(1) > 127)[0], tensor({10.0f, 5.0f, 39.0f, 24.0f})));
  }
  CHECK(folder.read({.without_objects = false})->size() == 2);
  for (auto [image, target] : data::Pipeline(folder.read({.height = 8, .width = 9, .channels = io::Channels::gray})))
    CHECK(image.sizes() == Dims{1, 1, 8, 9});
}

TEST_CASE("regions of many objects are left out, or marked") {
  const Folder folder;
  const auto set = folder.read({.height = 40, .width = 60, .crowds = true});
  CHECK(set->target_sizes() == Dims{2, 6});
  for (auto [image, target] : data::Pipeline(set).raw().batch(3))
    CHECK(equal(target[0], tensor({{10.0, 5.0, 40.0, 25.0, 1.0, 0.0}, {0.0, 0.0, 60.0, 40.0, 1.0, 1.0}})));
}

TEST_CASE("windows chosen by objects show them where their boxes are") {
  const Folder folder;
  const auto set = folder.read({.height = 64, .width = 64, .random_crop = data::IouCropOptions{}});
  std::int64_t seen = 0;
  for (auto [image, target] : data::Pipeline(set).raw().seed(test::seed()).batch(2).threads(2).epochs(20)) {
    INFO("seed " << test::seed());
    if (image.size(0) < 2) continue;
    const auto row = target[0][0].to_vector<float>();
    if (row[4] < 0) continue;
    ++seen;
    const auto box = nn::masks_to_boxes(image[0].slice(0, 0, 1) > 127)[0].to_vector<float>();
    const float zoom = 64.0f / 12;  // of the smallest window, 0.3 of 40 pixels
    for (int i = 0; i < 4; ++i) CHECK(std::abs(row[i] - (box[i] + (i < 2 ? 0 : 1))) <= zoom / 2 + 1);
  }
  CHECK(seen >= 15);
}

TEST_CASE("files that are no annotations are refused, with what is wrong") {
  const Folder folder;
  const auto read = [&](const std::string& path) { data::coco_detection(folder.dir.path(), path); };
  const auto refuse = [&](const std::string& bytes, const std::string& fragment) {
    put_file(folder.dir / "bad", bytes);
    refuses_file(read, folder.dir / "bad", fragment);
  };
  const auto refuse_with = [&](const std::string& from, const std::string& to, const std::string& fragment) {
    refuse(replaced(good, from, to), fragment);
  };
  refuse("", "is not valid JSON at byte");
  refuse("[]", "must be a JSON object");
  refuse(good.substr(0, 500), "is not valid JSON at byte");
  refuse(good + "]", "is not valid JSON at byte");
  refuse(replaced(good, "dog",
                  "d\xff"
                  "g"),
         "is not valid JSON at byte");
  refuse("PK\3\4 and more", "is a ");
  refuse_with(R"("file_name": "a.png")", R"("file": "a.png")", "images[0] has no file_name");
  refuse_with(R"("file_name": "empty.png")", R"("file_name": 5)", "images[2] has no file_name");
  refuse_with(R"("width": 60, "id": 7)", R"("width": 60)", "images[0] has no id");
  refuse_with(R"("id": 3, "file_name")", R"("id": 7, "file_name")", "has two images with the id 7");
  refuse_with(R"({"id": 2, "name")", R"({"id": 18, "name")", "has two categories with the id 18");
  refuse_with(R"("image_id": 7, "bbox": [10)", R"("image_id": 8, "bbox": [10)", "belongs to image 8, which it lacks");
  refuse_with(R"("category_id": 18)", R"("category_id": 1)", "has the category 1, which it lacks");
  refuse_with("[10, 5, 30, 20.0]", "[10, 5, 30]", "annotations[0] has no bbox of four numbers");
  refuse_with("[10, 5, 30, 20.0]", "[10, 5, 30, 20, 1]", "annotations[0] has no bbox");
  refuse_with("[10, 5, 30, 20.0]", "[[10, 5, 30, 20]]", "annotations[0] has no bbox");
  refuse_with("[10, 5, 30, 20.0]", "[10, 5, 30, 1e300]", "has a box with the number 1e+300");
  refuse_with("a.png", "../a.png", "leads out of the folder");
  refuse_with("a.png", "/etc/a.png", "leads out of the folder");
  refuse_with("a.png", "x/../../a.png", "leads out of the folder");
  refuse_with("a.png", "", "leads out of the folder");
  refuse_with("a.png", "a.png\\u0000", "leads out of the folder");
  CHECK_THROWS_WITH(data::coco_detection(folder.dir / "no", folder.dir / "good.json"), Contains("there is no folder"));
  CHECK_THROWS_WITH(read(folder.dir / "no.json"), Contains("no.json"));
  CHECK_THROWS_WITH(folder.read({.height = 0}), Contains("sizes must be positive"));
  CHECK_THROWS_WITH(folder.read({.random_crop = data::IouCropOptions{.scale = {0, 1}}}), Contains("random_iou_crop"));
  put_file(folder.dir / "none.json", R"({"images": []})");
  CHECK_THROWS_WITH(read(folder.dir / "none.json"), Contains("has no images"));
  std::filesystem::remove(folder.dir / "a.png");
  data::Loader loader = data::Pipeline(folder.read()).batch(1).loader();
  data::Batch batch;
  CHECK_THROWS_WITH(loader.next(batch), Contains("sample 0") && Contains("a.png"));
}

TEST_CASE("a damaged file is read or refused") {
  const Folder folder;
  manual_seed(test::seed());
  INFO("seed " << test::seed());
  for (int round = 0; round < 400; ++round) {
    std::string bytes = good;
    for (int change = 0; change < 3; ++change) {
      const auto at =
          static_cast<std::size_t>(randint(static_cast<std::int64_t>(bytes.size()), {1}).item<std::int64_t>());
      const char put = "{}[]\",:0-1e.n x"[randint(15, {1}).item<std::int64_t>()];
      if (round % 2 == 0) bytes[at] = put;
      else bytes.erase(at, 1);
    }
    put_file(folder.dir / "bad", bytes);
    try {
      const auto set = data::coco_detection(folder.dir.path(), folder.dir / "bad");
      CHECK(set->size() >= 1);
    } catch (const Error&) {}
  }
}
