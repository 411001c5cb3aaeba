// The block of the ResNet in samples/cifar.cpp, for tests that look at what a network launches.
#pragma once

#include "mantissa.h"

namespace mantissa::test {

struct ResNetBlock {
  ResNetBlock(std::int64_t in, std::int64_t out, int stride)
      : conv1(in, out, 3, {.stride = stride, .padding = 1, .bias = false}),
        conv2(out, out, 3, {.padding = 1, .bias = false}), bn1(out), bn2(out) {
    if (stride != 1 || in != out)
      shortcut = nn::Sequential{nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}), nn::BatchNorm2d(out)};
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNormAct2d bn1, bn2;
  nn::Sequential shortcut;
  MANTISSA_FIELDS(conv1, bn1, conv2, bn2, shortcut)
  Tensor operator()(const Tensor& x) const { return bn2(conv2(bn1(conv1(x))), shortcut(x)); }
};

}  // namespace mantissa::test
