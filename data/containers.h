// Transforms of transforms, applied randomly per image of a batch, as torchvision's containers. The inner transforms
// see the selected images as a batch of their own. All images must leave the batch with the same size and dtype, and
// with unchanged targets (MixUp and CutMix act on whole batches), but for those that move with the pixels
// (data/pixel_targets.h, data/box_targets.h; `targets`: the dataset's).
//   data::Pipeline(set).random_apply([](data::Pipeline p) { return p.gaussian_blur(3); }, 0.3f)
#pragma once

#include <vector>

#include "data/transforms.h"

namespace mantissa::data {

// All of them, in sequence, with probability p.
struct RandomApply final : Transform {
  RandomApply(Transforms inside, float p, Targets targets = Targets::values);
  void apply(Batch& batch, Draws& draws) const override;
  Transforms transforms;
  float p;
  Targets targets;
};

// One of several lists, with probability proportional to its weight; equal weights by default.
struct RandomChoice final : Transform {
  explicit RandomChoice(std::vector<Transforms> choices, std::vector<float> weights = {},
                        Targets targets = Targets::values);
  void apply(Batch& batch, Draws& draws) const override;
  std::vector<Transforms> choices;
  std::vector<float> weights;
  Targets targets;
};

// All lists, in a random order per image.
struct RandomOrder final : Transform {
  explicit RandomOrder(std::vector<Transforms> l, Targets t = Targets::values) : lists(std::move(l)), targets(t) {}
  void apply(Batch& batch, Draws& draws) const override;
  std::vector<Transforms> lists;
  Targets targets;
};

}  // namespace mantissa::data
