// roi_align (He et al., "Mask R-CNN", 2017): resamples regions of images to one size, as torchvision.ops.roi_align.
//
//   Tensor y = nn::roi_align(features, boxes, 7, {.spatial_scale = 1.0 / 16, .sampling_ratio = 2, .aligned = true});
//
// Gradients flow to the features and not to the boxes. f16 and bf16 are computed in f32 and rounded at the end, also
// under autocast. Reads the boxes to the host.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/per_dim.h"
#include "core/tensor.h"

namespace mantissa::nn {

struct RoiAlignOptions {
  double spatial_scale = 1;         // size of x over that of the pictures that the boxes refer to
  std::int64_t sampling_ratio = 0;  // points per bin in each direction; 0: as many as the bin covers pixels
  bool aligned = false;  // pixel centres are at half-integers; if false, regions are at least one pixel wide and high
};
// x [N, C, H, W], boxes [K, 5]: index of the picture, x1, y1, x2, y2 -> [K, C, height, width].
Tensor roi_align(const Tensor& x, const Tensor& boxes, PerDim<2> output_size, const RoiAlignOptions& = {});
// The same with a list of boxes [K, 4], one element for each of the N pictures.
Tensor roi_align(const Tensor& x, const std::vector<Tensor>& boxes, PerDim<2> output_size, const RoiAlignOptions& = {});
inline Tensor roi_align(const Tensor& x, std::initializer_list<Tensor> boxes, PerDim<2> output_size,
                        const RoiAlignOptions& options = {}) {
  return roi_align(x, std::vector<Tensor>(boxes), output_size, options);
}

}  // namespace mantissa::nn
