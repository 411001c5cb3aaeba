// Targets that belong to the pixels of an image move with them: the masks of a segmentation, pictures to be restored.
//
//   data::Dataset set{.images = pictures, .labels = masks, .classes = 21};   // u8 [N, 3, H, W] and u8 [N, H, W]
//   for (auto [image, mask] : data::Pipeline(set).shuffle().random_flip().random_affine({.degrees = 10}).batch(8)) ...
//     cross_entropy(net(image), mask)                                        // f32 [8, 21, H, W] and i64 [8, H, W]
//
// They are targets with the height and width of their image:
//   u8 or i64 [B, H, W]             the class of each pixel. Moved without mixing classes (the nearest pixel), and 0 or
//                                   `target_fill` where there is no pixel: 255, say, with ignore_index = 255.
//                                   A loader delivers i64.
//   f32 [B, H, W] or [B, C, H, W]   moved as the image is, and 0 or `target_fill` where there is no pixel.
// Steps that only change the colours of images, erase parts of them or normalise them leave targets alone. As
// torchvision's transforms do with a tv_tensors.Mask. Boxes and points: data/box_targets.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "data/box_targets.h"
#include "data/resize.h"
#include "data/transforms.h"

namespace mantissa::data {

bool has_pixel_targets(const Batch& batch);
// Error if the targets would have to move along: for a step that moves pixels of the image alone.
void check_targets_stay(const Batch& batch, Targets kind, const char* step);

// The targets as images [B, C, H, W], u8 or f32, that transforms take, and back. Classes beyond 2^24, which f32 does
// not hold, are an error.
Tensor images_of_targets(const Tensor& targets);
Tensor targets_of_images(const Tensor& images, const Tensor& like);

// The options of a step for the targets.
template <class Options> Options for_targets(Options o, [[maybe_unused]] bool classes) {
  if constexpr (requires { o.target_fill; }) o.fill = o.target_fill;
  if constexpr (requires { o.interpolation; }) {
    if (classes) o.interpolation = Interpolation::nearest;
  }
  return o;
}
inline Interpolation for_targets(Interpolation i, bool classes) { return classes ? Interpolation::nearest : i; }

// Applies a step that moves pixels, move(images, draws, options[, Motions*]) -> images, to the images and, with the
// same draws, to their targets. `kind`: the dataset's; boxes and points need a step that tells motions.
template <class Options, class Move>
void move_pixels(Batch& batch, Draws& draws, Targets kind, const Options& options, const Move& move) {
  const auto call = [&](const Tensor& images, Draws& d, const Options& o, Motions* motions) {
    if constexpr (std::is_invocable_v<const Move&, const Tensor&, Draws&, const Options&, Motions*>) {
      return move(images, d, o, motions);
    } else {
      check(!motions,
            "move: the targets are boxes or points, so the function must take a Motions*, too, and append to "
            "it where each image's contents went (data/motion.h)");
      return move(images, d, o);
    }
  };
  if (kind != Targets::values) {
    Motions motions;
    batch.image = call(batch.image, draws, options, &motions);
    const auto told = static_cast<std::int64_t>(motions.size()), images = batch.image.size(0);
    check(told == images, "move: the function told ", told, " motions of ", images, " images");
    batch.label = moved_targets(batch.label, kind, motions);
    return;
  }
  Draws again = draws;
  const bool targets = has_pixel_targets(batch);
  batch.image = call(batch.image, draws, options, nullptr);
  if (!targets) return;
  const Tensor pixels =
      call(images_of_targets(batch.label), again, for_targets(options, !batch.label.is_floating()), nullptr);
  batch.label = targets_of_images(pixels, batch.label);
}

}  // namespace mantissa::data
