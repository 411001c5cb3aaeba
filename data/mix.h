// MixUp (Zhang et al., 2018) and CutMix (Yun et al., 2019): each image is put together with its neighbour in the batch,
// and so are their targets. After them Batch::label is f32 [B, classes], whose rows add up to 1; cross_entropy takes
// it. One weight, drawn from Beta(alpha, alpha), serves the whole batch, as in torchvision's transforms v2.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "data/draws.h"

namespace mantissa::data {

// weight * image + (1 - weight) * the one before it (the last one before the first). Images u8 or f32.
void mixup(Batch& batch, Draws& draws, std::int64_t classes, float alpha = 1);
// Pastes a rectangle of the image before it; the targets' weights are the parts of the area. images [B, C, H, W].
void cutmix(Batch& batch, Draws& draws, std::int64_t classes, float alpha = 1);

// i64 [B] as f32 [B, classes]; f32 targets [B, classes] are returned as they are.
Tensor soft_targets(const Tensor& labels, std::int64_t classes);

}  // namespace mantissa::data
