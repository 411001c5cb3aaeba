#include "data/box_crops.h"

#include <algorithm>
#include <cmath>

#include "data/box_overlap.h"
#include "data/crops.h"
#include "data/pixels.h"

namespace mantissa::data {

Tensor random_zoom_out(const Tensor& images, Draws& draws, const ZoomOutOptions& o, Motions* motions) {
  check_some_images(images, "random_zoom_out");
  check(o.range[0] >= 1 && o.range[0] <= o.range[1] && o.range[1] <= 100 && o.p >= 0 && o.p <= 1,
        "random_zoom_out: range must lie between 1 and 100, and p between 0 and 1, got ", o.range[0], " to ",
        o.range[1], " and ", o.p);
  const std::int64_t h = images.size(2), w = images.size(3);
  const Tensor out = Tensor::allocate(images.sizes(), images.dtype());
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const Tensor image = images.slice(0, b, b + 1);
    Tensor to = out.slice(0, b, b + 1);
    if (draws.uniform() >= o.p) {
      if (motions) motions->push_back({h, w});
      to.copy_(image);
      continue;
    }
    const float factor = draws.uniform(o.range[0], o.range[1]);
    const auto longer = [factor](std::int64_t side) {
      return std::max(side, static_cast<std::int64_t>(factor * static_cast<float>(side)));
    };
    const std::int64_t height = longer(h), width = longer(w);
    const std::int64_t top = draws.below(height - h + 1), left = draws.below(width - w + 1);
    const Tensor canvas = pad(image, {left, top, width - w - left, height - h - top, o.fill});
    const Place scale{static_cast<double>(w) / static_cast<double>(width),
                      static_cast<double>(h) / static_cast<double>(height)};
    const Place shift{scale[0] * static_cast<double>(left), scale[1] * static_cast<double>(top)};
    if (motions) motions->push_back(scaled_and_shifted(h, w, scale, shift));
    to.copy_(resize(canvas, h, w, o.interpolation));
  }
  return out;
}

void check_iou_crop(const IouCropOptions& o) {
  check(o.scale[0] > 0 && o.scale[0] <= o.scale[1] && o.scale[1] <= 1 && o.ratio[0] > 0 && o.ratio[0] <= o.ratio[1] &&
            o.attempts >= 1 && !o.overlaps.empty(),
        "random_iou_crop: scale must be a range in (0, 1], ratio one of positive numbers, attempts positive and "
        "overlaps not empty, got ",
        o.scale[0], " to ", o.scale[1], ", ", o.ratio[0], " to ", o.ratio[1], ", ", o.attempts, " and ",
        o.overlaps.size(), " overlaps");
}

Window window_with_boxes(std::int64_t height, std::int64_t width, float* boxes, std::int64_t count,
                         std::int64_t columns, Draws& draws, const IouCropOptions& o) {
  const Window whole{0, 0, height, width};
  const auto exists = [&](std::int64_t i) { return boxes[i * columns + 4] >= 0; };
  bool any = false;
  for (std::int64_t i = 0; i < count; ++i) any = any || exists(i);
  constexpr int most_numbers = 1000;  // then overlaps that no window has, such as 0.9 with a tiny object, are given up
  for (int number = 0; any && number < most_numbers; ++number) {
    const float wanted =
        o.overlaps[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(o.overlaps.size())))];
    if (wanted >= 1) return whole;
    for (int attempt = 0; attempt < o.attempts; ++attempt) {
      const auto part = [&](std::int64_t side) {
        return static_cast<std::int64_t>(static_cast<float>(side) * draws.uniform(o.scale[0], o.scale[1]));
      };
      const std::int64_t wide = part(width), high = part(height);
      if (wide < 1 || high < 1) continue;
      const float ratio = static_cast<float>(wide) / static_cast<float>(high);
      if (ratio < o.ratio[0] || ratio > o.ratio[1]) continue;
      const Window window{draws.below(height - high + 1), draws.below(width - wide + 1), high, wide};
      const auto left = static_cast<float>(window.left), top = static_cast<float>(window.top);
      const float right = left + static_cast<float>(wide), bottom = top + static_cast<float>(high);
      const auto has_centre = [&](const float* b) {
        const float x = (b[0] + b[2]) / 2, y = (b[1] + b[3]) / 2;
        return x > left && x < right && y > top && y < bottom;
      };
      const float edges[4] = {left, top, right, bottom};
      double best = -1;
      for (std::int64_t i = 0; i < count; ++i)
        if (exists(i) && has_centre(boxes + i * columns)) best = std::max(best, overlap_of(edges, boxes + i * columns));
      if (!(best >= std::max(wanted, 0.0f))) continue;
      constexpr float none[5] = {0, 0, 0, 0, -1};
      for (std::int64_t i = 0; i < count; ++i)
        if (exists(i) && !has_centre(boxes + i * columns)) std::copy_n(none, 5, boxes + i * columns);
      return window;
    }
  }
  return whole;
}

void random_iou_crop(Batch& batch, std::int64_t height, std::int64_t width, Draws& draws, const IouCropOptions& o) {
  check_some_images(batch.image, "random_iou_crop");
  check_iou_crop(o);
  check(height >= 1 && width >= 1, "random_iou_crop: the new size must be positive, got ", height, " x ", width);
  const std::int64_t n = batch.image.size(0), h = batch.image.size(2), w = batch.image.size(3);
  check_place_targets(batch.label, Targets::boxes, n);
  const std::int64_t rows = batch.label.size(1), columns = batch.label.size(2);
  const Tensor images = Tensor::allocate({n, batch.image.size(1), height, width}, batch.image.dtype());
  const Tensor boxes = batch.label.clone();
  Motions motions;
  for (std::int64_t b = 0; b < n; ++b) {
    const Window window = window_with_boxes(h, w, boxes.data<float>() + b * rows * columns, rows, columns, draws, o);
    motions.push_back(motion_of(window, height, width));
    images.slice(0, b, b + 1).copy_(resize_window(batch.image.slice(0, b, b + 1), window, height, width));
  }
  batch.image = images;
  batch.label = moved_targets(boxes, Targets::boxes, motions);
}

}  // namespace mantissa::data
