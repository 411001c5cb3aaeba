#include "core/winograd.h"

namespace mantissa {

bool winograd_can(ConvPass, const ConvShape& s) {
  for (int d = 0; d < 2; ++d) {
    if (s.kernel[d] != 3 || s.stride[d] != 1 || s.dilation[d] != 1 || s.padding[d] < 0 || s.padding[d] > 2)
      return false;
  }
  return s.is_image() && s.groups == 1;
}

bool winograd_fits(ConvPass pass, const ConvShape& s) {
  if (!winograd_can(pass, s)) return false;
  // Transforms cost as much as about 16 channels. With few channels their rounding errors would dominate.
  if (s.in_channels < 16 || s.out_channels < 16 || s.batch * s.out_pixels() < 16) return false;
  // 36 multiplications for a tile of 16 pixels, compared with 9 per pixel needed.
  const std::int64_t* pixels = pass == ConvPass::input_gradient ? s.in : s.out;
  const std::int64_t tiles = ((pixels[0] + 3) / 4) * ((pixels[1] + 3) / 4);
  return 36 * tiles * 2 <= 9 * pixels[0] * pixels[1];
}

}  // namespace mantissa
