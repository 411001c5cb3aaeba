#include "data/mask_folder.h"

#include <cstring>
#include <filesystem>
#include <map>

#include "data/folders.h"
#include "data/picture_files.h"

namespace mantissa::data {
namespace {

namespace fs = std::filesystem;

// The files below the folder by their path without the extension.
std::map<std::string, std::string> files_under(const std::string& folder) {
  check(is_folder(folder), "mask_folder: there is no folder ", folder);
  std::map<std::string, std::string> files;
  for (const std::string& path : pictures_under(folder)) {
    const auto [same, added] =
        files.emplace(fs::path(path).lexically_relative(folder).replace_extension().string(), path);
    check(added, "mask_folder: ", same->second, " and ", path, " have the same name");
  }
  return files;
}

void copy(const Tensor& from, void* to) { std::memcpy(to, from.raw_data(), static_cast<std::size_t>(from.nbytes())); }

class MaskFolder final : public Source {
 public:
  MaskFolder(const std::string& images, const std::string& masks, const ImageFolderOptions& o)
      : options_(checked(o, "mask_folder")) {
    const std::map<std::string, std::string> pictures = files_under(images);
    for (const auto& [name, mask] : files_under(masks)) {
      const auto picture = pictures.find(name);
      check(picture != pictures.end(), "mask_folder: the mask ", mask, " has no image ", name,
            ".jpg, .jpeg or .png in ", images);
      pairs_.emplace_back(picture->second, mask);
    }
    check(!pairs_.empty(), "mask_folder: ", masks, " has no .png files");
    info_.name = fs::path(images).filename().string();
    info_.source = concat(pairs_.size(), " pictures and masks in ", images, " and ", masks);
    set_normalization(info_, options_);
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(pairs_.size()); }
  Dims image_sizes() const override { return sizes_of_images(options_); }
  Dims target_sizes() const override { return {options_.size, options_.size}; }
  Dtype target_dtype() const override { return u8; }
  Info info() const override { return info_; }
  std::int64_t read(std::int64_t, void*) const override { fail("the dataset has masks, not class numbers"); }
  void read_pair(std::int64_t index, void* image, void* target) const override {
    read_parts(index, image, target, nullptr);
  }
  void read_drawn(std::int64_t index, void* image, void* target, Draws& draws) const override {
    read_parts(index, image, target, &draws);
  }

 private:
  void read_parts(std::int64_t index, void* image, void* target, Draws* draws) const {
    check(index >= 0 && index < size(), "the index is not in a folder of ", size(), " pictures");
    const auto& [picture, mask] = pairs_[static_cast<std::size_t>(index)];
    const Tensor pixels = io::read_pixels(picture, options_.channels), classes = io::read_mask(mask).unsqueeze(2);
    check(pixels.size(0) == classes.size(0) && pixels.size(1) == classes.size(1), picture, " has ", pixels.size(1),
          " x ", pixels.size(0), " pixels, but its mask ", mask, " ", classes.size(1), " x ", classes.size(0));
    std::optional<Draws> again = draws ? std::optional(*draws) : std::nullopt;
    copy(part_of(pixels, options_, draws), image);
    copy(part_of(classes, options_, again ? &*again : nullptr, Interpolation::nearest), target);
  }

  ImageFolderOptions options_;
  Info info_;
  std::vector<std::pair<std::string, std::string>> pairs_;  // image, mask
};

}  // namespace

SourcePtr mask_folder(const std::string& images, const std::string& masks, const ImageFolderOptions& options) {
  try {
    return std::make_shared<MaskFolder>(images, masks, options);
  } catch (const fs::filesystem_error& e) {
    fail("mask_folder: ", e.what());
  }
}

}  // namespace mantissa::data
