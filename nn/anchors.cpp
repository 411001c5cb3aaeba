#include "nn/anchors.h"

#include <algorithm>
#include <cmath>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/indexing.h"
#include "core/operators.h"
#include "core/random.h"

namespace mantissa::nn {
namespace {

Tensor wide(const Tensor& x) { return x.dtype() == f64 ? x : x.to(f32); }
void check_boxes(const char* name, const char* argument, const Tensor& x) {
  check(x.defined() && x.dim() >= 1 && x.size(-1) == 4, name, ": ", argument, " must be [..., 4], got ", x);
}

// Centre and size, each [..., 2].
struct Centred {
  Tensor centre, sides;
  explicit Centred(const Tensor& boxes) {
    const Tensor low = narrow(boxes, -1, 0, 2);
    sides = narrow(boxes, -1, 2, 2) - low;
    centre = low + sides * 0.5;
  }
};
Tensor pair(double a, double b, const Tensor& like) {
  return from_data(std::vector<double>{a, b}, {2}).to(like.dtype()).to(like.device());
}

}  // namespace

std::vector<Tensor> AnchorGenerator::operator()(const std::vector<Tensor>& maps,
                                                std::array<std::int64_t, 2> image_size) const {
  check(maps.size() == sizes.size(), "AnchorGenerator: has sizes for ", sizes.size(), " feature maps, got ",
        maps.size());
  std::vector<Tensor> all;
  for (std::size_t level = 0; level < maps.size(); ++level) {
    const Tensor& map = maps[level];
    check(map.defined() && map.dim() == 4 && map.numel() > 0, "AnchorGenerator: feature map ", level,
          " must be [N, C, H, W], got ", map);
    std::vector<double> around;  // the anchors centred at (0, 0)
    for (const double ratio : aspect_ratios) {
      check(ratio > 0, "AnchorGenerator: aspect ratios must be positive, found ", ratio);
      for (const double size : sizes[level]) {
        const double height = size * std::sqrt(ratio), width = size / std::sqrt(ratio);
        for (const double x : {-width, -height, width, height}) around.push_back(std::nearbyint(x / 2));
      }
    }
    const TensorOptions o{.dtype = map.dtype(), .device = map.device()};
    const auto places = [&](std::int64_t count, std::int64_t size) {
      return arange(0, static_cast<double>(count), 1, o) * static_cast<double>(size / count);
    };
    const Tensor grid[] = {places(map.size(2), image_size[0]), places(map.size(3), image_size[1])};
    const std::vector<Tensor> at = meshgrid(grid);
    const Tensor points = stack({at[1], at[0], at[1], at[0]}, -1).reshape(-1, 1, 4);
    const Tensor boxes = from_data(around, {static_cast<std::int64_t>(around.size()) / 4, 4});
    all.push_back((points + boxes.to(o.dtype).to(o.device)).reshape(-1, 4));
  }
  return all;
}

Tensor BoxCoder::encode(const Tensor& boxes, const Tensor& anchors) const {
  check_boxes("BoxCoder.encode", "boxes", boxes);
  check_boxes("BoxCoder.encode", "anchors", anchors);
  const amp::Autocast off(amp::disabled);
  const Centred b(wide(boxes)), a(wide(anchors));
  return cat({(b.centre - a.centre) / a.sides * pair(weights[0], weights[1], a.sides),
              log(b.sides / a.sides) * pair(weights[2], weights[3], a.sides)},
             -1);
}

Tensor BoxCoder::decode(const Tensor& codes, const Tensor& anchors) const {
  check_boxes("BoxCoder.decode", "codes", codes);
  check_boxes("BoxCoder.decode", "anchors", anchors);
  const amp::Autocast off(amp::disabled);
  const Tensor c = wide(codes);
  const Centred a(wide(anchors));
  const Tensor centre = narrow(c, -1, 0, 2) / pair(weights[0], weights[1], c) * a.sides + a.centre,
               log_ratio = clamp_max(narrow(c, -1, 2, 2) / pair(weights[2], weights[3], c), largest_log_ratio),
               half = exp(log_ratio) * a.sides * 0.5;
  return cat({centre - half, centre + half}, -1);
}

Tensor match_boxes(const Tensor& iou, double high, double low, bool low_quality) {
  check(iou.defined() && iou.dim() == 2, "match_boxes: iou must be [objects, anchors], got ", iou);
  check(low <= high, "match_boxes: low must be at most high, got ", low, " and ", high);
  const NoGrad no_grad;
  if (iou.numel() == 0) return full({iou.size(1)}, -1, {.dtype = i64, .device = iou.device()});
  const auto [best, object] = max(iou, 0);
  Tensor match = where(best >= high, object, where(best >= low, full_like(object, -2), full_like(object, -1)));
  if (low_quality) match = where(any(iou == amax(iou, {1}, true), {0}), object, match);
  return match;
}

BalancedSample balanced_sample(const Tensor& labels, std::int64_t count, double positive_fraction) {
  check(labels.defined() && labels.dim() == 1, "balanced_sample: labels must be [N], got ", labels);
  check(count >= 0 && positive_fraction >= 0 && positive_fraction <= 1,
        "balanced_sample: needs count >= 0 and positive_fraction in [0, 1], got ", count, " and ", positive_fraction);
  const auto some = [&](const Tensor& chosen, std::int64_t most) {
    const Tensor all = where(chosen)[0].to(cpu);
    const Tensor few = index_select(all, 0, slice(randperm(all.size(0)), 0, 0, most));
    return few.to(labels.device());
  };
  const Tensor positive = some(labels >= 1, static_cast<std::int64_t>(static_cast<double>(count) * positive_fraction));
  return {positive, some(labels == 0, count - positive.size(0))};
}

}  // namespace mantissa::nn
