#include "nn/feature_pyramid.h"

#include "nn/norm.h"

namespace mantissa::nn {
namespace {

Conv2d convolution(std::int64_t in, std::int64_t out, int kernel, int stride = 1, bool bias = true) {
  Conv2d conv(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = bias});
  init::kaiming_uniform_(conv.weight, 1);
  if (bias) init::zeros_(conv.bias);
  return conv;
}
Sequential block(std::int64_t in, std::int64_t out, int kernel, bool batch_norm) {
  if (!batch_norm) return Sequential{convolution(in, out, kernel)};
  return Sequential{convolution(in, out, kernel, 1, false), BatchNorm2d(out)};
}

}  // namespace

FeaturePyramidNetwork::FeaturePyramidNetwork(const std::vector<std::int64_t>& in, std::int64_t out,
                                             const FeaturePyramidOptions& o)
    : options(o), extra_reads_pyramid_(!in.empty() && in.back() == out) {
  check(!in.empty(), "FeaturePyramidNetwork: needs the channels of at least one feature map");
  for (const std::int64_t channels : in) {
    inner_blocks.push_back(block(channels, out, 1, o.batch_norm));
    layer_blocks.push_back(block(out, out, 3, o.batch_norm));
  }
  if (o.extra == ExtraLevels::p6_p7)
    extra_blocks = P6P7{convolution(in.back(), out, 3, 2), convolution(out, out, 3, 2)};
}

std::vector<Tensor> FeaturePyramidNetwork::operator()(const std::vector<Tensor>& maps) const {
  check(maps.size() == inner_blocks.size(), "FeaturePyramidNetwork: needs ", inner_blocks.size(),
        " feature maps, the largest first, got ", maps.size());
  std::vector<Tensor> levels(maps.size());
  Tensor sum;
  for (std::size_t i = maps.size(); i-- > 0;) {
    check(maps[i].defined() && maps[i].dim() == 4, "FeaturePyramidNetwork: feature map ", i,
          " must be [N, C, H, W], got ", maps[i]);
    const Tensor lateral = inner_blocks[i](maps[i]);
    sum = sum.defined() ? lateral + interpolate(sum, {.size = {lateral.size(2), lateral.size(3)}}) : lateral;
    levels[i] = layer_blocks[i](sum);
  }
  if (options.extra == ExtraLevels::max_pool) levels.push_back(max_pool2d(levels.back(), 1, {.stride = 2}));
  if (extra_blocks) {
    levels.push_back(extra_blocks->p6(extra_reads_pyramid_ ? levels.back() : maps.back()));
    levels.push_back(extra_blocks->p7(relu(levels.back())));
  }
  return levels;
}

FeaturePyramidNetwork FeaturePyramidNetwork::clone() const {
  FeaturePyramidNetwork c;
  c.inner_blocks = detail::clone_value(inner_blocks);
  c.layer_blocks = detail::clone_value(layer_blocks);
  c.extra_blocks = detail::clone_value(extra_blocks);
  c.options = options;
  c.extra_reads_pyramid_ = extra_reads_pyramid_;
  return c;
}

}  // namespace mantissa::nn
