// FeaturePyramidNetwork (Lin et al., 2017), with torchvision's parameters and results: turns a backbone's feature maps
// into maps of `out` channels each, adding upsampled coarser levels to finer ones.
//
//   nn::FeaturePyramidNetwork fpn{{256, 512, 1024, 2048}, 256, {.extra = nn::ExtraLevels::max_pool}};
//   std::vector<Tensor> levels = fpn({c2, c3, c4, c5});   // p2 ... p5, and p6 from the extra level
#pragma once

#include <optional>
#include <vector>

#include "nn/conv.h"
#include "nn/sequential.h"

namespace mantissa::nn {

// Extra levels above the coarsest: none; one by max pooling (Faster R-CNN); or two by convolutions (RetinaNet), from
// the backbone's coarsest map, or from the pyramid's if both have the same number of channels.
enum class ExtraLevels { none, max_pool, p6_p7 };

struct FeaturePyramidOptions {
  ExtraLevels extra = ExtraLevels::none;
  bool batch_norm = false;  // after each convolution, which then has no bias
};

class FeaturePyramidNetwork {
 public:
  // `in`: channels of each backbone map.
  FeaturePyramidNetwork(const std::vector<std::int64_t>& in, std::int64_t out, const FeaturePyramidOptions& o = {});
  // Maps [N, in[i], H_i, W_i], largest first -> [N, out, H_i, W_i] each, then the extra levels.
  std::vector<Tensor> operator()(const std::vector<Tensor>& maps) const;

  struct P6P7 {
    Conv2d p6, p7;
    MANTISSA_FIELDS(p6, p7)
  };
  std::vector<Sequential> inner_blocks, layer_blocks;  // 1x1, and 3x3 on the sums
  std::optional<P6P7> extra_blocks;
  FeaturePyramidOptions options;
  MANTISSA_FIELDS(inner_blocks, layer_blocks, extra_blocks)
  FeaturePyramidNetwork clone() const;

 private:
  FeaturePyramidNetwork() = default;
  bool extra_reads_pyramid_ = false;
};

}  // namespace mantissa::nn
