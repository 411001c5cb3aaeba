// The --augment option of the image classifiers.
#pragma once

#include <mantissa/mantissa.h>

#include <string>
#include <vector>

namespace samples {

// flip mirrors half of the images; crop also shifts them, within a border of 4 pixels. The others include crop: cutout
// erases squares, rand is RandAugment, trivial TrivialAugment Wide, auto AutoAugment's CIFAR-10 policy, augmix AugMix.
// Digits are not mirrored, as that would change them, and use the SVHN policy.
inline const std::vector<std::string> augmentations{"none", "flip",    "crop", "cutout",
                                                    "rand", "trivial", "auto", "augmix"};

inline mantissa::data::Pipeline augmented(mantissa::data::Pipeline p, const std::string& how,
                                        bool digits = false) {
  namespace data = mantissa::data;
  if (how == "none") return p;
  if (how != "flip") p = p.random_crop(4);
  if (!digits) p = p.random_flip();
  if (how == "cutout") return p.cutout(8);
  if (how == "rand") return p.rand_augment();
  if (how == "trivial") return p.trivial_augment_wide();
  if (how == "augmix") return p.aug_mix();
  const auto policy = digits ? data::AutoAugmentPolicy::svhn : data::AutoAugmentPolicy::cifar10;
  return how == "auto" ? p.auto_augment({.policy = policy}) : p;
}

}  // namespace samples
