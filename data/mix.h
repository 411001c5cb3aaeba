// MixUp (Zhang et al., 2018) and CutMix (Yun et al., 2019): each image is combined with its neighbour in the batch, and
// so are their targets. Afterwards Batch::label is f32 [B, classes], with rows that sum to 1; cross_entropy accepts it.
// One weight, drawn from Beta(alpha, alpha), is used for the whole batch, as in torchvision's transforms v2.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "data/draws.h"

namespace mantissa::data {

// weight * image + (1 - weight) * previous image (for the first: the last one). Images u8 or f32.
void mixup(Batch& batch, Draws& draws, std::int64_t classes, float alpha = 1);
// Pastes a rectangle of the previous image; the targets' weights are the area fractions. images [B, C, H, W].
void cutmix(Batch& batch, Draws& draws, std::int64_t classes, float alpha = 1);

// i64 [B] as one-hot f32 [B, classes]; f32 targets [B, classes] are returned unchanged.
Tensor soft_targets(const Tensor& labels, std::int64_t classes);

}  // namespace mantissa::data
