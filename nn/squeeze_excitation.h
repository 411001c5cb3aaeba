// Squeeze and excitation (Hu et al., 2018), as torchvision.ops.SqueezeExcitation: every channel of a feature map is
// scaled by a number that depends on the means of all channels.
//   nn::SqueezeExcitation scale(64, 16);                                                  // relu and sigmoid
//   nn::SqueezeExcitation scale(64, 16, {.scale_activation = nn::Hardsigmoid()});         // as in MobileNetV3
//   nn::SqueezeExcitation scale(64, 16, {.activation = nn::SiLU()});                      // as in EfficientNet
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "core/ops.h"
#include "nn/conv.h"
#include "nn/copy_fields.h"
#include "nn/fields.h"

namespace mantissa::nn {

struct SqueezeExcitationOptions {
  using Function = std::function<Tensor(const Tensor&)>;
  Function activation = [](const Tensor& x) { return relu(x); };
  Function scale_activation = [](const Tensor& x) { return sigmoid(x); };
};

// x [N, input_channels, H, W], the result too; squeeze_channels: the width of the layer between.
struct SqueezeExcitation {
  SqueezeExcitation(std::int64_t input_channels, std::int64_t squeeze_channels, SqueezeExcitationOptions o = {})
      : fc1(input_channels, squeeze_channels, 1), fc2(squeeze_channels, input_channels, 1), options(std::move(o)) {}
  Conv2d fc1, fc2;
  SqueezeExcitationOptions options;
  MANTISSA_FIELDS(fc1, fc2)

  Tensor operator()(const Tensor& x) const {
    return x * options.scale_activation(fc2(options.activation(fc1(mean(x, {2, 3}, true)))));
  }
  SqueezeExcitation clone() const {
    SqueezeExcitation copy(fc1.weight.size(1), fc1.weight.size(0), options);
    copy_fields(*this, copy);
    return copy;
  }
};

}  // namespace mantissa::nn
