#include "data/coco.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "core/ops.h"
#include "data/coco_file.h"
#include "data/folders.h"
#include "data/picture_files.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

namespace fs = std::filesystem;
using io::fail_format;
using io::quote;

using Object = std::array<float, 6>;  // left, top, right, bottom, label, crowd

struct Picture {
  std::string path;
  std::vector<Object> objects;
};

// A file's name must not lead out of the folder.
std::string path_in(const std::string& folder, const std::string& name, const std::string& annotations) {
  const fs::path relative = fs::path(name).lexically_normal();
  if (name.empty() || relative.is_absolute() || relative.begin()->string() == ".." ||
      name.find('\0') != std::string::npos)
    fail_format(annotations, "the file name ", quote(name), " leads out of the folder of images");
  return (fs::path(folder) / relative).string();
}

class CocoDetection final : public Source {
 public:
  CocoDetection(const std::string& images, const std::string& annotations, const CocoOptions& o) : options_(o) {
    check(o.height >= 1 && o.width >= 1 && o.height <= INT32_MAX && o.width <= INT32_MAX,
          "coco_detection: sizes must be positive, got ", o.height, " x ", o.width);
    check(o.channels != io::Channels::as_stored,
          "coco_detection: pictures of one batch must have the same channels: ask for gray or rgb");
    if (o.random_crop) check_iou_crop(*o.random_crop);
    check(is_folder(images), "coco_detection: there is no folder ", images);
    take(read_coco(annotations), images, annotations);
    info_.name = fs::path(annotations).stem().string();
    info_.source = concat(pictures_.size(), " pictures in ", images, " with ", objects_, " objects of ", info_.classes,
                          " classes, by ", annotations);
    info_.targets = Targets::boxes;
    set_normalization(info_, {.channels = o.channels});
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(pictures_.size()); }
  Dims image_sizes() const override {
    return {options_.channels == io::Channels::gray ? 1 : 3, options_.height, options_.width};
  }
  Dims target_sizes() const override { return {most_, columns()}; }
  Dtype target_dtype() const override { return f32; }
  Info info() const override { return info_; }
  std::int64_t read(std::int64_t, void*) const override { fail("the dataset has boxes, not class numbers"); }
  void read_pair(std::int64_t index, void* image, void* target) const override {
    read_parts(index, image, target, nullptr);
  }
  void read_drawn(std::int64_t index, void* image, void* target, Draws& draws) const override {
    read_parts(index, image, target, &draws);
  }

 private:
  void take(CocoFile file, const std::string& folder, const std::string& annotations) {
    std::map<std::int64_t, std::string> categories;  // in the order of ids
    for (CocoFile::Category& c : file.categories)
      if (!categories.emplace(c.id, std::move(c.name)).second)
        fail_format(annotations, "has two categories with the id ", c.id);
    std::unordered_map<std::int64_t, float> labels;
    for (auto& [id, name] : categories) {
      labels.emplace(id, static_cast<float>(labels.size()));
      info_.class_names.push_back(std::move(name));
    }
    info_.classes = static_cast<std::int64_t>(labels.size());

    std::unordered_map<std::int64_t, std::size_t> places;
    for (const CocoFile::Image& image : file.images) {
      if (!places.emplace(image.id, pictures_.size()).second)
        fail_format(annotations, "has two images with the id ", image.id);
      pictures_.push_back({path_in(folder, image.file, annotations), {}});
    }
    for (const CocoFile::Annotation& a : file.annotations) {
      const auto place = places.find(a.image);
      const auto label = labels.find(a.category);
      if (place == places.end())
        fail_format(annotations, "an annotation belongs to image ", a.image, ", which it lacks");
      if (label == labels.end())
        fail_format(annotations, "an annotation has the category ", a.category, ", which it lacks");
      const auto [x, y, w, h] = a.box;
      for (const double v : a.box)
        if (!std::isfinite(v) || std::abs(v) > 1e6)
          fail_format(annotations, "an annotation of image ", a.image, " has a box with the number ", v);
      if ((a.crowd && !options_.crowds) || w <= 0 || h <= 0) continue;
      const auto f = [](double v) { return static_cast<float>(v); };
      pictures_[place->second].objects.push_back({f(x), f(y), f(x + w), f(y + h), label->second, a.crowd ? 1.0f : 0});
    }
    if (!options_.without_objects) std::erase_if(pictures_, [](const Picture& p) { return p.objects.empty(); });
    for (const Picture& p : pictures_) {
      const auto count = static_cast<std::int64_t>(p.objects.size());
      most_ = std::max(most_, count);
      objects_ += count;
    }
    check(!pictures_.empty(), "coco_detection: ", annotations, " has no images");
  }

  std::int64_t columns() const { return options_.crowds ? 6 : 5; }

  void read_parts(std::int64_t index, void* image, void* target, Draws* draws) const {
    check(index >= 0 && index < size(), "the index is not in a dataset of ", size(), " pictures");
    const Picture& picture = pictures_[static_cast<std::size_t>(index)];
    const Tensor pixels = permute(io::read_pixels(picture.path, options_.channels), {2, 0, 1}).unsqueeze(0);
    const std::int64_t h = pixels.size(2), w = pixels.size(3);
    const Tensor boxes = Tensor::allocate({1, most_, columns()}, f32);
    float* row = boxes.data<float>();
    for (std::int64_t i = 0; i < most_; ++i, row += columns()) {
      const auto at = static_cast<std::size_t>(i);
      const Object object = at < picture.objects.size() ? picture.objects[at] : Object{0, 0, 0, 0, -1, 0};
      std::copy_n(object.begin(), columns(), row);
    }
    Window window{0, 0, h, w};
    if (draws && options_.random_crop)
      window = window_with_boxes(h, w, boxes.data<float>(), most_, columns(), *draws, *options_.random_crop);
    const Tensor part = resize_window(pixels, window, options_.height, options_.width);
    const Tensor placed = moved_targets(boxes, Targets::boxes, {motion_of(window, options_.height, options_.width)});
    std::memcpy(image, part.raw_data(), static_cast<std::size_t>(part.nbytes()));
    std::memcpy(target, placed.raw_data(), static_cast<std::size_t>(placed.nbytes()));
  }

  CocoOptions options_;
  Info info_;
  std::vector<Picture> pictures_;
  std::int64_t most_ = 1, objects_ = 0;
};

}  // namespace

SourcePtr coco_detection(const std::string& images, const std::string& annotations, const CocoOptions& options) {
  return std::make_shared<CocoDetection>(images, annotations, options);
}

}  // namespace mantissa::data
