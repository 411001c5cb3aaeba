// What compression as JPEG leaves of pictures: blocks, rings and blurred colours, as an augmentation.
#pragma once

#include <array>

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

// Compresses each image and reads it again, with a quality of its own from {least, most}, both of 1 to 100 and both
// included; in place. u8 [B, 1 or 3, H, W], contiguous. As torchvision's JPEG.
void random_jpeg_(Tensor& images, Draws& draws, std::array<int, 2> quality);

}  // namespace mantissa::data
