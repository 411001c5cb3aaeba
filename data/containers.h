// Transforms of transforms, chosen by chance for each picture of a batch, as torchvision's containers. What is inside
// sees the pictures that are concerned as a batch of their own. All pictures must come out of the batch with one size
// and dtype, and with the targets they had (MixUp and CutMix concern whole batches).
//   data::Pipeline(set).random_apply([](data::Pipeline p) { return std::move(p).gaussian_blur(3); }, 0.3f)
#pragma once

#include <vector>

#include "data/transforms.h"

namespace mantissa::data {

// All of them, one after the other, with probability p.
struct RandomApply final : Transform {
  RandomApply(Transforms inside, float p);
  void apply(Batch& batch, Draws& draws) const override;
  Transforms transforms;
  float p;
};

// One of several lists, each as often as its weight says; without weights equally often.
struct RandomChoice final : Transform {
  explicit RandomChoice(std::vector<Transforms> choices, std::vector<float> weights = {});
  void apply(Batch& batch, Draws& draws) const override;
  std::vector<Transforms> choices;
  std::vector<float> weights;
};

// All lists, in an order that each picture draws.
struct RandomOrder final : Transform {
  explicit RandomOrder(std::vector<Transforms> lists) : lists(std::move(lists)) {}
  void apply(Batch& batch, Draws& draws) const override;
  std::vector<Transforms> lists;
};

}  // namespace mantissa::data
