// Targets that are boxes or points in an image move with it: those of object detection, of faces and poses.
//
//   data::Dataset set{.images = pictures, .labels = boxes, .classes = 20, .targets = data::Targets::boxes};
//   for (auto [image, target] : data::Pipeline(set).shuffle().random_flip().random_affine({.degrees = 5}).batch(8)) {
//     const Tensor box = target[{ellipsis, slice(0, 4)}], label = target[{ellipsis, 4}].to(i64);  // [8, M, 4], [8, M]
//     const Tensor exists = label >= 0;
//   }
//
// Boxes of different numbers become one tensor by nn::pad_sequence(boxes_of_each_image, true, -1).
//
//   boxes    f32 [B, M, 5 or more]: x1, y1, x2, y2 in pixels, the class, and further columns, which stay. Each image
//            has as many rows as the one with the most objects: those with a class below 0 are none. A moved box is the
//            smallest upright one around what is left in the image of its turned or bent outline; if that is less than
//            a pixel high or wide, it is gone: its row is 0, 0, 0, 0, -1.
//   points   f32 [B, M, 2], or [B, M, 3 or more] with a third column that says whether the point is visible: 0 if the
//            point is not known, or has left the image, and further columns, which stay. Mirrored images do not
//            exchange left and right: which points belong together, only you know.
//
// Pixels: the upper left corner of the image is (0, 0), its lower right one (width, height). As torchvision's
// transforms with tv_tensors.BoundingBoxes and KeyPoints, followed by SanitizeBoundingBoxes; but there a turned box
// includes what is outside the image when it is cut. Next: data/box_crops.h (steps that choose windows by what lies in
// them), data/coco.h (files), data/average_precision.h (the metric), nn/boxes.h.
#pragma once

#include "data/dataset.h"
#include "data/motion.h"

namespace mantissa::data {

// Error unless the targets are of one of these forms. `images`: how many there are.
void check_place_targets(const Tensor& targets, Targets kind, std::int64_t images);
// A new tensor: the targets where their images have gone.
Tensor moved_targets(const Tensor& targets, Targets kind, const Motions& motions);

}  // namespace mantissa::data
