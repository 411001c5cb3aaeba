// Boxes in pictures, as torchvision.ops has them: what detectors are trained and read out with. A box is the last
// dimension of a tensor, of size 4: x1, y1, x2, y2 with x1 <= x2 and y1 <= y2 ("xyxy") where no other form is named.
//
//   const Tensor overlap = nn::box_iou(anchors, truth);                                 // [N, M]
//   const Tensor loss = nn::complete_box_iou_loss(predicted, truth, Reduction::mean);   // of pairs
//   const Tensor kept = nn::batched_nms(boxes, scores, classes, 0.5);                   // indices, the best first
//
// Made of operators, so differentiable and on every device, but for the two that choose (nms, batched_nms), which read
// boxes and scores to the host. Halves are computed and given in f32, also in a region of autocast; the numbers are
// torchvision's. An undefined tensor, and a last dimension of another size than 4, is an Error.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/ops.h"

namespace mantissa::nn {

// From one form to another: "xyxy"; "xywh", a corner, width and height; "cxcywh", the centre, width and height.
Tensor box_convert(const Tensor& boxes, std::string_view from, std::string_view to);
Tensor box_area(const Tensor& boxes);  // [..., 4] -> [...]
// With coordinates beyond the picture moved to its border. size: height and width.
Tensor clip_boxes_to_image(const Tensor& boxes, std::array<double, 2> size);
// Indices i64 of the boxes [N, 4] both of whose sides are at least min_size long.
Tensor remove_small_boxes(const Tensor& boxes, double min_size);
// The box around what is not 0 in each mask [N, H, W]: f32 [N, 4], the last pixel included; of an empty mask zeros.
Tensor masks_to_boxes(const Tensor& masks);

// How far each of a [..., N, 4] overlaps each of b [..., M, 4]: [..., N, M].
Tensor box_iou(const Tensor& a, const Tensor& b);  // the part of their union that both cover, from 0 to 1
// Less the part of the smallest box around both that neither covers (Rezatofighi et al., 2019): from -1 to 1.
Tensor generalized_box_iou(const Tensor& a, const Tensor& b);
// Less the squared distance of their centres over the squared diagonal of that box (Zheng et al., 2020).
Tensor distance_box_iou(const Tensor& a, const Tensor& b, double eps = 1e-7);
// The same, less a term for unlike proportions (Zheng et al., 2020).
Tensor complete_box_iou(const Tensor& a, const Tensor& b, double eps = 1e-7);

// Losses of pairs, a and b [..., 4] of one shape: 1 - the overlap above. Reduction::none gives [...]; the mean of no
// boxes is 0.
Tensor generalized_box_iou_loss(const Tensor& a, const Tensor& b, Reduction = Reduction::none, double eps = 1e-7);
Tensor distance_box_iou_loss(const Tensor& a, const Tensor& b, Reduction = Reduction::none, double eps = 1e-7);
Tensor complete_box_iou_loss(const Tensor& a, const Tensor& b, Reduction = Reduction::none, double eps = 1e-7);
// Binary cross entropy of logits x, which counts less where x is right already (Lin et al., 2017): times
// (1 - p of the target)^gamma, and times alpha for targets of 1, 1 - alpha for those of 0; alpha = -1: without that.
// target: 0 to 1, of x's shape.
Tensor sigmoid_focal_loss(const Tensor& x, const Tensor& target, double alpha = 0.25, double gamma = 2,
                          Reduction = Reduction::none);

// Non-maximum suppression: of boxes [N, 4] with scores [N] the indices i64 of those that overlap no better one by
// more than iou_threshold, the best first; of equal scores the earlier. NaN is the best score. No gradient.
Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold);
// The same within each class: only boxes of equal classes, i64 [N], suppress each other.
Tensor batched_nms(const Tensor& boxes, const Tensor& scores, const Tensor& classes, double iou_threshold);

}  // namespace mantissa::nn
