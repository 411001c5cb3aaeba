// Transforms of the 256 levels of u8 images: posterize, solarize, invert, autocontrast, equalize. images [..., H, W],
// u8, contiguous, in place; every channel of every image separately. Results have the bits of torchvision's functions
// on u8 tensors. The random versions change each image of [B, C, H, W] with probability p.
#pragma once

#include "core/tensor.h"
#include "data/draws.h"

namespace mantissa::data {

void posterize_(Tensor& images, int bits);           // keeps the upper `bits` of 8; 0: all black
void solarize_(Tensor& images, double threshold);    // 255 - x where x >= threshold
void invert_(Tensor& images);                        // 255 - x
void autocontrast_(Tensor& images);                  // the darkest level becomes 0, the brightest 255
void equalize_(Tensor& images);                      // flattens the histogram (Pillow's rule)

void random_posterize_(Tensor& images, Draws& draws, int bits, float p = 0.5f);
void random_solarize_(Tensor& images, Draws& draws, double threshold, float p = 0.5f);
void random_invert_(Tensor& images, Draws& draws, float p = 0.5f);
void random_autocontrast_(Tensor& images, Draws& draws, float p = 0.5f);
void random_equalize_(Tensor& images, Draws& draws, float p = 0.5f);

}  // namespace mantissa::data
