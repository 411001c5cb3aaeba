// A folder of images and one of their masks, for segmentation:
//
//   photos/001.jpg  photos/deep/er/002.jpeg    masks/001.png  masks/deep/er/002.png
//
//   const auto set = data::mask_folder("photos", "masks", {.size = 256, .random_crop = data::ResizedCropOptions{}});
//   for (auto [image, mask] : data::Pipeline(set).shuffle().random_flip().batch(8).threads(4))
//     cross_entropy(net(image), mask, {.ignore_index = 255})       // mask: i64 [8, 256, 256]
//
// This is the structure of Pascal VOC (JPEGImages, SegmentationClass: images without a mask are left out) and of the
// Oxford pets (images, annotations/trimaps). Images are read when their batch is made, as those of data/image_folder.h.
#pragma once

#include <string>

#include "data/image_folder.h"

namespace mantissa::data {

// An image belongs to the mask of the same path below its folder, but for the extension; masks are PNGs
// (io::read_mask) of their image's size. Both are cut and resized alike, masks without mixing classes. Normalised with
// ImageNet's mean and std unless the pipeline says otherwise; the number of classes is not known. Error if a folder
// does not exist or a mask has no image; an unreadable file or a mask of another size is an error when its batch is
// due.
SourcePtr mask_folder(const std::string& images, const std::string& masks, const ImageFolderOptions& options = {});

}  // namespace mantissa::data
