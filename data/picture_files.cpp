#include "data/picture_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/ops.h"

namespace mantissa::data {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// The offset of torchvision's CenterCrop: rounds half to even.
std::int64_t middle(std::int64_t from, std::int64_t size) { return std::lrint(static_cast<double>(from - size) / 2); }

}  // namespace

std::vector<std::string> pictures_under(const std::string& folder) {
  std::vector<std::string> found;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::recursive_directory_iterator(); ++it) {
    if (it->path().filename().string().starts_with('.')) it.disable_recursion_pending();
    else if (is_picture(it->path()) && it->is_regular_file()) found.push_back(it->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

ImageFolderOptions checked(ImageFolderOptions o, const char* who) {
  check(o.size >= 1 && o.resize >= 0, who, ": sizes must be positive, got ", o.size, " and ", o.resize);
  check(o.channels != io::Channels::as_stored, who,
        ": pictures of one batch must have the same channels: ask for gray or rgb");
  if (o.random_crop) check_resized_crop(*o.random_crop);
  if (o.resize == 0) o.resize = std::max(o.size, o.size * 8 / 7);
  check(o.resize >= o.size, who, ": resize ", o.resize, " is below the size ", o.size);
  return o;
}

Dims sizes_of_images(const ImageFolderOptions& o) {
  return {o.channels == io::Channels::gray ? 1 : 3, o.size, o.size};
}

void set_normalization(Info& info, const ImageFolderOptions& o) {
  const bool gray = o.channels == io::Channels::gray;
  info.mean = gray ? std::vector{0.449f} : std::vector{0.485f, 0.456f, 0.406f};
  info.std = gray ? std::vector{0.226f} : std::vector{0.229f, 0.224f, 0.225f};
}

Tensor part_of(const Tensor& pixels, const ImageFolderOptions& o, Draws* draws, Interpolation interpolation) {
  const Tensor x = permute(pixels, {2, 0, 1}).unsqueeze(0);
  const std::int64_t h = x.size(2), w = x.size(3), n = o.size, shorter = o.resize;
  if (draws && o.random_crop)
    return resize_window(x, random_window(h, w, *draws, *o.random_crop), n, n, interpolation);
  const std::int64_t high = h <= w ? shorter : shorter * h / w, wide = h <= w ? shorter * w / h : shorter;
  return resize_window(x, {0, 0, h, w}, high, wide, {middle(high, n), middle(wide, n), n, n}, interpolation);
}

}  // namespace mantissa::data
