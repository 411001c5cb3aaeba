// roi_align (He et al., "Mask R-CNN", 2017): resamples regions of images to a fixed size, as torchvision.ops.roi_align.
//
//   Tensor y = nn::roi_align(features, boxes, 7, {.spatial_scale = 1.0 / 16, .sampling_ratio = 2, .aligned = true});
//
// Gradients flow to the features but not to the boxes. f16 and bf16 are computed in f32 and rounded at the end, also
// under autocast. Error for a box that is not finite or whose picture is not there; on a GPU when the host next waits.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/per_dim.h"
#include "core/tensor.h"

namespace mantissa::nn {

struct RoiAlignOptions {
  double spatial_scale = 1;         // size of x / size of the images that the boxes refer to
  std::int64_t sampling_ratio = 0;  // samples per bin and direction; 0: as many as pixels per bin, or none: zeros
  bool aligned = false;  // pixel centres are at half-integers; if false, regions are at least one pixel wide and high
};
// x [N, C, H, W], boxes [K, 5]: image index, x1, y1, x2, y2 -> [K, C, height, width].
Tensor roi_align(const Tensor& x, const Tensor& boxes, PerDim<2> output_size, const RoiAlignOptions& = {});
// The same with a list of boxes [K, 4], one element per image.
Tensor roi_align(const Tensor& x, const std::vector<Tensor>& boxes, PerDim<2> output_size, const RoiAlignOptions& = {});
inline Tensor roi_align(const Tensor& x, std::initializer_list<Tensor> boxes, PerDim<2> output_size,
                        const RoiAlignOptions& options = {}) {
  return roi_align(x, std::vector<Tensor>(boxes), output_size, options);
}

// Position-sensitive: another input channel for each bin (Dai et al., "R-FCN", 2016): bin (i, j) of output channel c
// reads channel (c * height + i) * width + j of x. x [N, C * height * width, H, W] -> [K, C, height, width]. Always
// aligned, whatever the option says, as torchvision.ops.ps_roi_align.
Tensor ps_roi_align(const Tensor& x, const Tensor& boxes, PerDim<2> output_size, const RoiAlignOptions& = {});

// roi_align on a feature pyramid (Lin et al., 2017; nn/feature_pyramid.h): each box reads the level that suits its
// size, for which boxes are copied to the host; a box of canonical_size^2 pixels reads the level with scale
// 2^-canonical_level.
struct MultiScaleRoIAlign {
  MultiScaleRoIAlign(PerDim<2> output_size, std::int64_t sampling_ratio = 2, double canonical_size = 224,
                     int canonical_level = 4)
      : output_size(output_size), sampling_ratio(sampling_ratio), canonical_size(canonical_size),
        canonical_level(canonical_level) {}
  // levels [N, C, H_i, W_i], largest first, each half as large as the previous one; boxes [K, 4] per image; the batch's
  // image height and width -> [sum of K, C, height, width], in the order of the boxes.
  Tensor operator()(const std::vector<Tensor>& levels, const std::vector<Tensor>& boxes,
                    std::array<std::int64_t, 2> image_size) const;
  PerDim<2> output_size;
  std::int64_t sampling_ratio;
  double canonical_size;
  int canonical_level;
};

}  // namespace mantissa::nn
