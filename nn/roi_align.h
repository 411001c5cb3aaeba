// roi_align (He et al., "Mask R-CNN", 2017): regions of pictures as images of one size, as torchvision.ops has it.
//
//   Tensor y = nn::roi_align(features, boxes, 7, {.spatial_scale = 1.0 / 16, .sampling_ratio = 2, .aligned = true});
//
// Gradients reach the features and not the boxes. Halves are computed in f32 and rounded at the end, also in a region
// of autocast. Reads the boxes to the host.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/per_dim.h"
#include "core/tensor.h"

namespace mantissa::nn {

struct RoiAlignOptions {
  double spatial_scale = 1;         // from the boxes' coordinates to those of x
  std::int64_t sampling_ratio = 0;  // points of a part in each direction; 0: as many as it has pixels of x
  bool aligned = false;  // pixel centres lie at half numbers; without, regions are at least one pixel wide and high
};
// x [N, C, H, W], boxes [K, 5]: the number of the picture, x1, y1, x2, y2 -> [K, C, height, width].
Tensor roi_align(const Tensor& x, const Tensor& boxes, PerDim<2> output_size, const RoiAlignOptions& = {});
// The boxes [K, 4] of each of the N pictures, one after the other.
Tensor roi_align(const Tensor& x, const std::vector<Tensor>& boxes, PerDim<2> output_size, const RoiAlignOptions& = {});
inline Tensor roi_align(const Tensor& x, std::initializer_list<Tensor> boxes, PerDim<2> output_size,
                        const RoiAlignOptions& options = {}) {
  return roi_align(x, std::vector<Tensor>(boxes), output_size, options);
}

}  // namespace mantissa::nn
