#include "data/image_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "data/folders.h"
#include "data/picture_files.h"

namespace mantissa::data {
namespace {

namespace fs = std::filesystem;

class ImageFolder final : public Source {
 public:
  ImageFolder(const std::string& root, const ImageFolderOptions& o) : options_(checked(o, "image_folder")) {
    check(is_folder(root), "image_folder: there is no folder ", root);
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(root))
      if (entry.is_directory() && !entry.path().filename().string().starts_with('.')) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    check(!folders.empty(), "image_folder: ", root, " has no sub-folders; each class is one");
    for (const fs::path& folder : folders) add_class(folder);
    info_.classes = static_cast<std::int64_t>(folders.size());
    info_.name = fs::path(root).filename().string();
    info_.source = concat(paths_.size(), " pictures of ", info_.classes, " classes in ", root);
    set_normalization(info_, options_);
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(paths_.size()); }
  Dims image_sizes() const override { return sizes_of_images(options_); }
  Info info() const override { return info_; }
  std::int64_t read(std::int64_t index, void* image) const override { return read_part(index, image, nullptr); }
  void read_drawn(std::int64_t index, void* image, void* target, Draws& draws) const override {
    *static_cast<std::int64_t*>(target) = read_part(index, image, &draws);
  }

 private:
  std::int64_t read_part(std::int64_t index, void* image, Draws* draws) const {
    check(index >= 0 && index < size(), "the index is not in a folder of ", size(), " pictures");
    const auto i = static_cast<std::size_t>(index);
    const Tensor part = part_of(io::read_pixels(paths_[i], options_.channels), options_, draws);
    std::memcpy(image, part.raw_data(), static_cast<std::size_t>(part.nbytes()));
    return labels_[i];
  }
  void add_class(const fs::path& folder) {
    const std::vector<std::string> found = pictures_under(folder.string());
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
