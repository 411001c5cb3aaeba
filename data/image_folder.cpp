#include "data/image_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/ops.h"
#include "data/folders.h"

namespace mantissa::data {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

bool hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// Does not follow links to folders, so that cyclic links terminate.
std::vector<std::string> pictures_under(const fs::path& folder) {
  std::vector<std::string> found;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::recursive_directory_iterator(); ++it) {
    if (hidden(it->path())) it.disable_recursion_pending();
    else if (is_picture(it->path()) && it->is_regular_file()) found.push_back(it->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

class ImageFolder final : public Source {
 public:
  ImageFolder(const std::string& root, const ImageFolderOptions& o) : options_(o) {
    check(is_folder(root), "image_folder: there is no folder ", root);
    check(o.size >= 1 && o.resize >= 0, "image_folder: sizes must be positive, got ", o.size, " and ", o.resize);
    check(o.channels != io::Channels::as_stored,
          "image_folder: pictures of one batch must have the same channels: ask for gray or rgb");
    if (options_.resize == 0) options_.resize = std::max(o.size, o.size * 8 / 7);
    if (o.random_crop) check_resized_crop(*o.random_crop);
    check(options_.resize >= o.size, "image_folder: resize ", o.resize, " is below the size ", o.size);
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(root))
      if (entry.is_directory() && !hidden(entry.path())) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    check(!folders.empty(), "image_folder: ", root, " has no sub-folders; each class is one");
    for (const fs::path& folder : folders) add_class(folder);
    info_.classes = static_cast<std::int64_t>(folders.size());
    info_.name = fs::path(root).filename().string();
    info_.source = concat(paths_.size(), " pictures of ", info_.classes, " classes in ", root);
    const bool gray = o.channels == io::Channels::gray;
    info_.mean = gray ? std::vector{0.449f} : std::vector{0.485f, 0.456f, 0.406f};
    info_.std = gray ? std::vector{0.226f} : std::vector{0.229f, 0.224f, 0.225f};
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(paths_.size()); }
  Dims image_sizes() const override {
    return {options_.channels == io::Channels::gray ? 1 : 3, options_.size, options_.size};
  }
  Info info() const override { return info_; }
  std::int64_t read(std::int64_t index, void* image) const override { return read_part(index, image, nullptr); }
  void read_drawn(std::int64_t index, void* image, void* target, Draws& draws) const override {
    *static_cast<std::int64_t*>(target) = read_part(index, image, options_.random_crop ? &draws : nullptr);
  }

 private:
  // A random or the central window; only the output pixels are computed.
  std::int64_t read_part(std::int64_t index, void* image, Draws* draws) const {
    check(index >= 0 && index < size(), "the index is not in a folder of ", size(), " pictures");
    const auto i = static_cast<std::size_t>(index);
    const Tensor pixels = permute(io::read_pixels(paths_[i], options_.channels), {2, 0, 1}).unsqueeze(0);
    const std::int64_t h = pixels.size(2), w = pixels.size(3), n = options_.size, shorter = options_.resize;
    Tensor part;
    if (draws) {
      part = resize_window(pixels, random_window(h, w, *draws, *options_.random_crop), n, n);
    } else {
      const std::int64_t high = h <= w ? shorter : shorter * h / w, wide = h <= w ? shorter * w / h : shorter;
      part = resize_window(pixels, {0, 0, h, w}, high, wide, {middle(high, n), middle(wide, n), n, n});
    }
    std::memcpy(image, part.raw_data(), static_cast<std::size_t>(part.nbytes()));
    return labels_[i];
  }
  // The offset of torchvision's CenterCrop: rounds half to even.
  static std::int64_t middle(std::int64_t from, std::int64_t size) {
    return std::lrint(static_cast<double>(from - size) / 2);
  }
  void add_class(const fs::path& folder) {
    const std::vector<std::string> found = pictures_under(folder);
    check(!found.empty(), "image_folder: the class ", folder.string(), " has no .png, .jpg or .jpeg files");
    labels_.insert(labels_.end(), found.size(), static_cast<std::int64_t>(info_.class_names.size()));
    paths_.insert(paths_.end(), found.begin(), found.end());
    info_.class_names.push_back(folder.filename().string());
  }

  ImageFolderOptions options_;
  Info info_;
  std::vector<std::string> paths_;
  std::vector<std::int64_t> labels_;
};

}  // namespace

SourcePtr image_folder(const std::string& root, const ImageFolderOptions& options) {
  try {
    return std::make_shared<ImageFolder>(root, options);
  } catch (const fs::filesystem_error& e) {
    fail("image_folder: ", e.what());
  }
}

}  // namespace mantissa::data
