// Scenes made of small pictures, with masks for samples/unet.cpp or boxes for samples/detector.cpp, and their colors.
#pragma once

#include <mantissa/mantissa.h>

#include <algorithm>
#include <array>

namespace samples {

using namespace mantissa;

// Scenes of 64 x 64 pixels with three of the set's gray pictures, the later ones in front. With masks, the target is 0
// where there is no picture, and one more than the class of the picture elsewhere; with boxes, the target is where each
// picture is, whatever is in front of it.
inline data::Dataset scenes_of(const data::Dataset& set, std::int64_t count, std::uint64_t seed, bool boxes = false) {
  constexpr std::int64_t side = 64, pictures = 3, faint = 32;
  const std::int64_t h = set.images.size(2), w = set.images.size(3);
  data::Dataset scenes{.images = zeros({count, 1, side, side}, {.dtype = u8}),
                       .labels = boxes ? zeros({count, pictures, 5}) : zeros({count, side, side}, {.dtype = u8}),
                       .classes = set.classes + !boxes,
                       .source = concat(count, " scenes of three pictures each, of ", set.source),
                       .class_names = boxes ? set.class_names : std::vector<std::string>(),
                       .targets = boxes ? data::Targets::boxes : data::Targets::values};
  data::Draws draws(seed, data::Purpose::synthetic, 0);
  for (std::int64_t i = 0; i < pictures * count; ++i) {
    const std::int64_t chosen = draws.below(set.size());
    const std::int64_t top = draws.below(side - h + 1), left = draws.below(side - w + 1);
    const std::uint8_t* pixel = set.images.data<std::uint8_t>() + chosen * h * w;
    const std::int64_t label = set.labels.data<std::int64_t>()[chosen];
    std::int64_t x1 = side, y1 = side, x2 = 0, y2 = 0;
    for (std::int64_t y = top; y < top + h; ++y)
      for (std::int64_t x = left; x < left + w; ++x, ++pixel) {
        if (*pixel < faint) continue;
        const std::int64_t to = (i / pictures * side + y) * side + x;
        scenes.images.data<std::uint8_t>()[to] = *pixel;
        if (!boxes) scenes.labels.data<std::uint8_t>()[to] = static_cast<std::uint8_t>(label + 1);
        x1 = std::min(x1, x), y1 = std::min(y1, y), x2 = std::max(x2, x + 1), y2 = std::max(y2, y + 1);
      }
    if (boxes) std::ranges::copy(std::array{x1, y1, x2, y2, x1 < x2 ? label : -1}, scenes.labels.data<float>() + 5 * i);
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
