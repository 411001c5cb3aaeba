// A folder of pictures with one sub-folder per class, as torchvision's ImageFolder:
//
//   photos/cat/001.jpg  photos/cat/deep/er/002.png  photos/dog/003.jpeg
//
//   // a random part of each picture, as networks for ImageNet are trained, and the middle of it for the test
//   const auto train = data::image_folder("photos/train", {.size = 224, .random_crop = data::ResizedCropOptions{}});
//   const auto test = data::image_folder("photos/test", {.size = 224});
//   for (auto [image, label] : data::Pipeline(train).shuffle().random_flip().batch(32).threads(4)) ...
//
// data::random_split makes two sets of one folder.
// Pictures are read when their batch is made, by the loader's threads; only their names are in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "data/geometry.h"
#include "io/image.h"

namespace mantissa::data {

struct ImageFolderOptions {
  std::int64_t size = 224;    // of the pictures that come out, size x size, cut from the middle
  std::int64_t resize = 0;    // the shorter side before that; 0: size * 8 / 7, the usual 256 for 224
  io::Channels channels = io::Channels::rgb;
  // Instead of the middle: a window that the loader draws for each picture anew, as torchvision's RandomResizedCrop.
  std::optional<ResizedCropOptions> random_crop = {};
};

// Classes are the sub-folders in the order of their bytes, pictures the files in them, at any depth, that end in .png,
// .jpg or .jpeg (in any case); hidden files and folders are passed over. Normalised with the mean and std of ImageNet
// unless the pipeline says otherwise. Error when there is no such folder, it has no sub-folder, or one of them is
// empty. A picture that cannot be read is an error when its batch is due, with the path of the file.
SourcePtr image_folder(const std::string& root, const ImageFolderOptions& options = {});

}  // namespace mantissa::data
