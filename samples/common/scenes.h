// Pictures to be segmented, made of small ones, and masks in color, for samples/unet.cpp.
#pragma once

#include <mantissa/mantissa.h>

namespace samples {

using namespace mantissa;

// Scenes of 64 x 64 pixels with three of the set's gray pictures, the later ones in front. The mask is 0 where there is
// no picture, and one more than the class of the picture elsewhere.
inline data::Dataset scenes_of(const data::Dataset& set, std::int64_t count, std::uint64_t seed) {
  constexpr std::int64_t side = 64, faint = 32;
  const std::int64_t h = set.images.size(2), w = set.images.size(3);
  data::Dataset scenes{.images = zeros({count, 1, side, side}, {.dtype = u8}),
                       .labels = zeros({count, side, side}, {.dtype = u8}),
                       .classes = set.classes + 1,
                       .source = concat(count, " scenes of three pictures each, of ", set.source)};
  data::Draws draws(seed, data::Purpose::synthetic, 0);
  for (std::int64_t i = 0; i < 3 * count; ++i) {
    const std::int64_t chosen = draws.below(set.size());
    const std::int64_t top = draws.below(side - h + 1), left = draws.below(side - w + 1);
    const std::uint8_t* pixel = set.images.data<std::uint8_t>() + chosen * h * w;
    const auto label = static_cast<std::uint8_t>(set.labels.data<std::int64_t>()[chosen] + 1);
    for (std::int64_t y = 0; y < h; ++y)
      for (std::int64_t x = 0; x < w; ++x, ++pixel) {
        if (*pixel < faint) continue;
        const std::int64_t to = (i / 3 * side + top + y) * side + left + x;
        scenes.images.data<std::uint8_t>()[to] = *pixel;
        scenes.labels.data<std::uint8_t>()[to] = label;
      }
  }
  return scenes;
}

// A color for each class, black for 0: [N, H, W] -> [N, 3, H, W] in [-1, 1].
inline Tensor colored(const Tensor& classes) {
  const Tensor c = classes.to(f32).unsqueeze(1);
  const Tensor hue = c * 2.4 + tensor({0.0, 2.1, 4.2}, {.device = c.device()}).reshape({1, 3, 1, 1});
  return where(c == 0, full_like(c, -1), sin(hue));
}

}  // namespace samples
