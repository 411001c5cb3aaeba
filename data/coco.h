// Pictures and the boxes of the objects in them, from a file of annotations in COCO's format, which most tools for
// labelling write: {"images": [{"id", "file_name"}], "categories": [{"id", "name"}], "annotations": [{"image_id",
// "category_id", "bbox": [x, y, width, height], "iscrowd"}]}; other members are ignored.
//
//   const auto train = data::coco_detection("train2017", "annotations/instances_train2017.json",
//                                           {.height = 320, .width = 320, .random_crop = data::IouCropOptions{}});
//   for (auto [image, target] : data::Pipeline(train).shuffle().random_flip().batch(16).threads(4))
//     ...                                                     // f32 [16, 3, 320, 320] and [16, M, 5]
//
// Targets are boxes as data/box_targets.h has them: M is the largest number of objects in a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/box_crops.h"
#include "io/image.h"

namespace mantissa::data {

struct CocoOptions {
  std::int64_t height = 320, width = 320;  // each picture is resized to this, whatever its shape
  io::Channels channels = io::Channels::rgb;
  // For training: a window is chosen by the objects in it, and resized, instead of the whole picture.
  std::optional<IouCropOptions> random_crop = {};
  bool without_objects = true;  // also pictures in which nothing is marked
  // For evaluation: also regions of many objects (iscrowd). Targets have a sixth column then, 1 for these and else 0,
  // for MeanAveragePrecision to count what is found in them neither as right nor as wrong. Otherwise they are left out.
  bool crowds = false;
};

// Classes are numbered from 0 in the order of their ids; Info has their names. Pictures come in the order of the file
// and are read from `images`/file_name when their batch is made. Boxes without an area are left out. Normalised with
// ImageNet's mean and std unless the pipeline says otherwise. Error if the file does not fit its format, names a
// picture outside the folder, or an annotation belongs to no picture or no category; an unreadable picture is an error
// when its batch is due.
SourcePtr coco_detection(const std::string& images, const std::string& annotations, const CocoOptions& options = {});

}  // namespace mantissa::data
