// A folder of images with one sub-folder per class, as torchvision's ImageFolder:
//
//   photos/cat/001.jpg  photos/cat/deep/er/002.png  photos/dog/003.jpeg
//
//   // random crops for training, as usual for ImageNet, and the central crop for testing
//   const auto train = data::image_folder("photos/train", {.size = 224, .random_crop = data::ResizedCropOptions{}});
//   const auto test = data::image_folder("photos/test", {.size = 224});
//   for (auto [image, label] : data::Pipeline(train).shuffle().random_flip().batch(32).threads(4)) ...
//
// Use data::random_split to split one folder into two datasets. Images are read when their batch is made, by the
// loader's threads; only file names are kept in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "data/geometry.h"
#include "io/image.h"

namespace mantissa::data {

struct ImageFolderOptions {
  std::int64_t size = 224;    // of the output images, size x size, cropped from the centre
  std::int64_t resize = 0;    // shorter side before cropping; 0: size * 8 / 7, the usual 256 for 224
  io::Channels channels = io::Channels::rgb;
  // Instead of the central crop: a random window per image, drawn by the loader, as torchvision's RandomResizedCrop.
  std::optional<ResizedCropOptions> random_crop = {};
};

// Classes are the sub-folders sorted by bytes; images are the files in them, at any depth, with extension .png, .jpg or
// .jpeg (in any case); hidden files and folders are skipped. Normalised with ImageNet's mean and std unless the
// pipeline says otherwise. Error if the folder does not exist, has no sub-folder, or one of them is empty. An
// unreadable image is an error when its batch is due, with the path of the file.
SourcePtr image_folder(const std::string& root, const ImageFolderOptions& options = {});

}  // namespace mantissa::data
