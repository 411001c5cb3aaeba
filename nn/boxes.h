// Bounding boxes for detectors, as in torchvision.ops: overlaps, losses and non-maximum suppression. The last dimension
// of a tensor of boxes has size 4: x1, y1, x2, y2 with x1 <= x2 and y1 <= y2 ("xyxy") unless stated otherwise.
//
//   const Tensor overlap = nn::box_iou(anchors, truth);                                 // [N, M]
//   const Tensor loss = nn::complete_box_iou_loss(predicted, truth, Reduction::mean);   // pairwise
//   const Tensor kept = nn::batched_nms(boxes, scores, classes, 0.5);                   // indices, best first
//
// Built from operators, so differentiable and available on every device, except nms and batched_nms, which are kernels;
// on a GPU they wait for the number of boxes that are kept. f16 and bf16 boxes are computed and returned in f32, also
// under autocast; results match torchvision. An undefined tensor, or a last dimension other than 4, is an Error.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/ops.h"

namespace mantissa::nn {

// Formats: "xyxy"; "xywh": x1, y1, width, height; "cxcywh": centre, width, height.
Tensor box_convert(const Tensor& boxes, std::string_view from, std::string_view to);
Tensor box_area(const Tensor& boxes);  // [..., 4] -> [...]
// Clamps coordinates to the image. size: {height, width}.
Tensor clip_boxes_to_image(const Tensor& boxes, std::array<double, 2> size);
// i64 indices of the boxes [N, 4] whose width and height are both >= min_size.
Tensor remove_small_boxes(const Tensor& boxes, double min_size);
// The bounding box of the nonzero pixels of each mask [N, H, W]: f32 [N, 4], x2 and y2 inclusive; zeros if there are
// none.
Tensor masks_to_boxes(const Tensor& masks);

// Overlap of every box of a [..., N, 4] with every box of b [..., M, 4]: [..., N, M].
Tensor box_iou(const Tensor& a, const Tensor& b);  // intersection over union, from 0 to 1
// IoU minus the uncovered part of the smallest box that encloses both (Rezatofighi et al., 2019): from -1 to 1.
Tensor generalized_box_iou(const Tensor& a, const Tensor& b);
// IoU minus squared distance of the centres over squared diagonal of the enclosing box (Zheng et al., 2020).
Tensor distance_box_iou(const Tensor& a, const Tensor& b, double eps = 1e-7);
// The same minus a term for different aspect ratios (Zheng et al., 2020).
Tensor complete_box_iou(const Tensor& a, const Tensor& b, double eps = 1e-7);

// Losses of pairs: a and b [..., 4] of the same shape give 1 - the overlap above. Reduction::none: [...]. The mean over
// no boxes is 0.
Tensor generalized_box_iou_loss(const Tensor& a, const Tensor& b, Reduction = Reduction::none, double eps = 1e-7);
Tensor distance_box_iou_loss(const Tensor& a, const Tensor& b, Reduction = Reduction::none, double eps = 1e-7);
Tensor complete_box_iou_loss(const Tensor& a, const Tensor& b, Reduction = Reduction::none, double eps = 1e-7);
// Focal loss (Lin et al., 2017): binary cross entropy of logits x that down-weights well-classified elements by (1 -
// probability of the target)^gamma, and weights targets 1 by alpha and targets 0 by 1 - alpha (alpha = -1: unweighted).
// target: in [0, 1], of x's shape.
Tensor sigmoid_focal_loss(const Tensor& x, const Tensor& target, double alpha = 0.25, double gamma = 2,
                          Reduction = Reduction::none);

// Non-maximum suppression of boxes [N, 4] with scores [N]: i64 indices, by descending score, of the boxes whose IoU
// with every kept box of a higher score is at most iou_threshold. Ties: the earlier box. NaN is the highest score.
Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold);
// The same within each class: only boxes with equal classes, i64 [N], suppress each other.
Tensor batched_nms(const Tensor& boxes, const Tensor& scores, const Tensor& classes, double iou_threshold);

}  // namespace mantissa::nn
