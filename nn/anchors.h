// What an anchor-based detector (Faster R-CNN, RetinaNet, SSD) does with boxes beside nn/boxes.h, with the numbers of
// torchvision.models.detection: the anchors themselves, which of them are to find which object, and what the network
// learns to add to them.
//
//   nn::AnchorGenerator generator{.sizes = {{32}, {64}, {128}}, .aspect_ratios = {0.5, 1, 2}};
//   const Tensor anchors = cat(generator(levels, {height, width}));                          // [K, 4]
//   const Tensor match = nn::match_boxes(nn::box_iou(truth, anchors), 0.5, 0.4);             // [K]
//   const nn::BoxCoder coder;
//   const Tensor found = where(match >= 0)[0];
//   const Tensor goal = coder.encode(truth[match[found]], anchors[found]);                   // to regress towards
//   const Tensor boxes = coder.decode(predicted, anchors);                                   // when it is read out
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/ops.h"

namespace mantissa::nn {

// Boxes of given sizes and shapes around a regular grid of points, one for each element of a feature map.
struct AnchorGenerator {
  std::vector<std::vector<double>> sizes = {{128, 256, 512}};  // for each feature map: square roots of areas, in pixels
  std::vector<double> aspect_ratios = {0.5, 1, 2};             // height over width, for each size

  std::int64_t anchors_per_location(std::size_t level) const {
    return static_cast<std::int64_t>(sizes[level].size() * aspect_ratios.size());
  }
  // For maps [N, C, H_i, W_i] of images of this height and width: boxes [H_i * W_i * anchors_per_location(i), 4] each,
  // in the dtype and on the device of the map. The same for all images of a batch.
  std::vector<Tensor> operator()(const std::vector<Tensor>& maps, std::array<std::int64_t, 2> image_size) const;
};

// Boxes relative to anchors: the shift of the centre in units of the anchor's sides, and the logarithms of the ratios
// of the sides, times `weights` (Girshick et al., 2014).
struct BoxCoder {
  std::array<double, 4> weights = {1, 1, 1, 1};      // of x, y, width, height
  double largest_log_ratio = 4.135166556742356;      // log(1000 / 16): decode holds the logarithms at this, against inf

  Tensor encode(const Tensor& boxes, const Tensor& anchors) const;  // [..., 4], [..., 4] -> [..., 4]; they broadcast
  Tensor decode(const Tensor& codes, const Tensor& anchors) const;  // and back
};

// Which object each anchor is to find, from the overlaps iou [M, N] of M objects with N anchors: i64 [N], the object
// with the largest overlap if that is at least `high`; -1 (background) if it is below `low`; -2 (not to be trained on)
// in between. With low_quality the anchors that overlap an object most are matched in any case, to the object that
// they overlap most, so that no object goes without an anchor. Without objects: -1.
Tensor match_boxes(const Tensor& iou, double high, double low, bool low_quality = false);

// A random choice of about `count` of those with labels >= 1 (positive) and 0 (negative), at most this fraction of them
// positive: indices i64. labels [N]: others are left out. Reads the labels to the host.
struct BalancedSample { Tensor positive, negative; };
BalancedSample balanced_sample(const Tensor& labels, std::int64_t count, double positive_fraction);

}  // namespace mantissa::nn
