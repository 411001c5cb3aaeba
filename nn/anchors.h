// Anchors for detectors (Faster R-CNN, RetinaNet, SSD), with torchvision.models.detection's results: generating
// anchors, matching them to ground-truth boxes, and encoding boxes relative to them. Box operators: nn/boxes.h.
//
//   nn::AnchorGenerator generator{.sizes = {{32}, {64}, {128}}, .aspect_ratios = {0.5, 1, 2}};
//   const Tensor anchors = cat(generator(levels, {height, width}));                          // [K, 4]
//   const Tensor match = nn::match_boxes(nn::box_iou(truth, anchors), 0.5, 0.4);             // [K]
//   const nn::BoxCoder coder;
//   const Tensor found = where(match >= 0)[0];
//   const Tensor goal = coder.encode(truth[match[found]], anchors[found]);                   // regression targets
//   const Tensor boxes = coder.decode(predicted, anchors);                                   // at inference
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/ops.h"

namespace mantissa::nn {

// Anchors of given sizes and aspect ratios, centred on each element of a feature map.
struct AnchorGenerator {
  std::vector<std::vector<double>> sizes = {{128, 256, 512}};  // per feature map: square roots of areas, in pixels
  std::vector<double> aspect_ratios = {0.5, 1, 2};             // height / width; combined with each size

  std::int64_t anchors_per_location(std::size_t level) const {
    return static_cast<std::int64_t>(sizes[level].size() * aspect_ratios.size());
  }
  // For feature maps [N, C, H_i, W_i] of images of size {height, width}: one tensor of boxes [H_i * W_i *
  // anchors_per_location(i), 4] per map, in the map's dtype and on its device. The same for all images.
  std::vector<Tensor> operator()(const std::vector<Tensor>& maps, std::array<std::int64_t, 2> image_size) const;
};

// Encodes boxes relative to anchors: centre offsets divided by the anchor's width and height, and log ratios of widths
// and heights, times `weights` (Girshick et al., 2014).
struct BoxCoder {
  std::array<double, 4> weights = {1, 1, 1, 1};      // of x, y, width, height
  double largest_log_ratio = 4.135166556742356;      // log(1000 / 16): decode clamps log ratios to this

  Tensor encode(const Tensor& boxes, const Tensor& anchors) const;  // [..., 4], [..., 4] -> [..., 4], with broadcasting
  Tensor decode(const Tensor& codes, const Tensor& anchors) const;  // the inverse
};

// Assigns each of N anchors a ground-truth object, from iou [M, N] with M objects: i64 [N], the index of the object
// with the largest IoU if that is >= `high`; -1 (background) if it is < `low`; -2 (ignored in training) in between.
// With low_quality, the anchors with the largest IoU for some object are assigned to the object they overlap most
// whatever the IoU, so that every object has an anchor. With M = 0 all are -1.
Tensor match_boxes(const Tensor& iou, double high, double low, bool low_quality = false);

// A random sample of about `count` elements of labels [N], at most `positive_fraction` of them positive (label >= 1),
// the rest negative (label 0): i64 indices. Other labels are never sampled. Copies the labels to the host.
struct BalancedSample { Tensor positive, negative; };
BalancedSample balanced_sample(const Tensor& labels, std::int64_t count, double positive_fraction);

}  // namespace mantissa::nn
