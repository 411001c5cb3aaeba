// Augmentation policies: each image is changed by randomly drawn operations out of fourteen, with magnitudes from a
// table. Tables, probabilities and results are those of torchvision's transforms of the same names.
//
//   data::cifar10().shuffle().random_crop(4).random_flip().trivial_augment_wide().batch(128) ...
//
// images [B, C, H, W], u8, contiguous, 1 or 3 channels; in place.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "data/draws.h"
#include "data/geometry.h"

namespace mantissa::data {

enum class AugmentOp {
  identity, shear_x, shear_y, translate_x, translate_y, rotate, brightness, color, contrast, sharpness, posterize,
  solarize, auto_contrast, equalize, invert
};

// An operation of a policy and its magnitudes per level, from level 0; empty: it has no magnitude. If `mirrored`, the
// magnitude is negated half of the time.
struct AugmentLevels {
  AugmentOp op = AugmentOp::identity;
  std::vector<float> magnitudes = {};
  bool mirrored = false;
};
using AugmentSpace = std::vector<AugmentLevels>;
// `bins` levels, at least 2, for images of this size.
AugmentSpace rand_augment_space(std::int64_t bins, std::int64_t height, std::int64_t width);  // also AutoAugment's
AugmentSpace trivial_augment_space(std::int64_t bins);
AugmentSpace aug_mix_space(bool all_ops, std::int64_t height, std::int64_t width);  // 10 levels

// What was drawn for an image. The magnitude is a tangent for shears, pixels for translations (truncated to integers),
// degrees counter-clockwise for rotate, a factor minus 1 for brightness, color, contrast and sharpness, bits for
// posterize, a fraction of 255 for solarize.
struct AugmentStep {
  AugmentOp op = AugmentOp::identity;
  double magnitude = 0;
};
using AugmentSteps = std::vector<AugmentStep>;
// Applies it to every image.
void apply_augment_(Tensor& images, const AugmentStep& step, const RotationOptions& options = {});

// num_ops operations in sequence, each drawn from all, at a fixed level (Cubuk et al., 2020).
struct RandAugmentOptions {
  int num_ops = 2, magnitude = 9, num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::nearest;
  float fill = 0;
};
void rand_augment_(Tensor& images, Draws& draws, const RandAugmentOptions& options = {});

// One operation at a random level (Mueller and Hutter, 2021).
struct TrivialAugmentOptions {
  int num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::nearest;
  float fill = 0;
};
void trivial_augment_wide_(Tensor& images, Draws& draws, const TrivialAugmentOptions& options = {});

// One of 25 pairs of operations, each with its own probability and level, found by search on a dataset (Cubuk et al.,
// 2019).
enum class AutoAugmentPolicy { imagenet, cifar10, svhn };
struct AutoAugmentOptions {
  AutoAugmentPolicy policy = AutoAugmentPolicy::imagenet;
  Interpolation interpolation = Interpolation::nearest;
  float fill = 0;
};
void auto_augment_(Tensor& images, Draws& draws, const AutoAugmentOptions& options = {});

// A mixture of the image with `mixture_width` augmentation chains applied to it: chain weights from Dirichlet(alpha,
// ...), weight of the mixture against the original from Beta(alpha, alpha) (Hendrycks et al., 2020). Levels are below
// `severity`, 1 to 10; a chain has chain_depth operations, or 1 to 3 if that is not positive. Without all_ops
// brightness, color, contrast and sharpness are excluded: they resemble the corruptions of robustness test sets.
struct AugMixOptions {
  int severity = 3, mixture_width = 3, chain_depth = -1;
  float alpha = 1;
  bool all_ops = true;
  Interpolation interpolation = Interpolation::bilinear;
  float fill = 0;
};
void aug_mix_(Tensor& images, Draws& draws, const AugMixOptions& options = {});

// The operations that the first three draw for an image; for tests and for inspecting a policy.
AugmentSteps rand_augment_steps(std::int64_t height, std::int64_t width, Draws& draws,
                                const RandAugmentOptions& options = {});
AugmentSteps trivial_augment_steps(Draws& draws, const TrivialAugmentOptions& options = {});
AugmentSteps auto_augment_steps(std::int64_t height, std::int64_t width, Draws& draws,
                                const AutoAugmentOptions& options = {});
// The pairs of a policy. level -1: the operation has no magnitude.
struct PolicyStep {
  AugmentOp op;
  float probability;
  int level;
};
std::vector<std::array<PolicyStep, 2>> auto_augment_policy(AutoAugmentPolicy policy);

}  // namespace mantissa::data
