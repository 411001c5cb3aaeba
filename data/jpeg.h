// JPEG compression artifacts as an augmentation.
#pragma once

#include <array>

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

// Encodes and decodes each image with its own random quality from {least, most}, inclusive, both within 1 to 100; in
// place. u8 [B, 1 or 3, H, W], contiguous. As torchvision's JPEG.
void random_jpeg_(Tensor& images, Draws& draws, std::array<int, 2> quality);

}  // namespace mantissa::data
