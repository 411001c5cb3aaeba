#include "nn/roi_align.h"

#include <algorithm>
#include <cmath>

#include "core/ops.h"
#include "core/roi_align.h"

namespace mantissa::nn {
namespace {

Tensor align(bool by_position, const Tensor& x, const Tensor& boxes, PerDim<2> output_size, const RoiAlignOptions& o) {
  const Tensor there = x.defined() && boxes.defined() ? boxes.to(x.device()) : boxes;
  return average_regions(
      x, there, {output_size[0], output_size[1], o.spatial_scale, o.sampling_ratio, o.aligned, by_position});
}

// Concatenates the boxes of all images, with the image index prepended.
Tensor numbered(const char* name, const std::vector<Tensor>& boxes) {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Tensor& b = boxes[i];
    check(b.defined() && b.dim() == 2 && b.size(1) == 4, name, ": boxes of picture ", i, " must be [K, 4], got ", b);
    const Tensor number = full({b.size(0), 1}, static_cast<double>(i), {.dtype = f64, .device = b.device()});
    all.push_back(cat({number, b.to(f64)}, 1));
  }
  return cat(all);
}

}  // namespace

Tensor roi_align(const Tensor& x, const Tensor& boxes, PerDim<2> output_size, const RoiAlignOptions& options) {
  return align(false, x, boxes, output_size, options);
}
Tensor roi_align(const Tensor& x, const std::vector<Tensor>& boxes, PerDim<2> output_size, const RoiAlignOptions& o) {
  check(x.defined() && x.dim() == 4 && static_cast<std::int64_t>(boxes.size()) == x.size(0),
        "roi_align: needs the boxes of each picture of x, got ", boxes.size(), " lists for ", x);
  return roi_align(x, numbered("roi_align", boxes), output_size, o);
}
Tensor ps_roi_align(const Tensor& x, const Tensor& boxes, PerDim<2> output_size, const RoiAlignOptions& options) {
  RoiAlignOptions o = options;
  o.aligned = true;
  return align(true, x, boxes, output_size, o);
}

Tensor MultiScaleRoIAlign::operator()(const std::vector<Tensor>& levels, const std::vector<Tensor>& boxes,
                                      std::array<std::int64_t, 2> image_size) const {
  check(!levels.empty() && image_size[0] > 0, "MultiScaleRoIAlign: needs at least one level and the images' size");
  std::vector<int> halvings;  // log2 of the downscaling at each level
  for (const Tensor& level : levels) {
    check(level.defined() && level.dim() == 4 && level.size(0) == static_cast<std::int64_t>(boxes.size()),
          "MultiScaleRoIAlign: a level must be [", boxes.size(), ", C, H, W], one image for each list of boxes, got ",
          level);
    halvings.push_back(static_cast<int>(
        std::lround(std::log2(static_cast<double>(image_size[0]) / static_cast<double>(level.size(2))))));
    check(halvings.back() == halvings.front() + static_cast<int>(halvings.size()) - 1,
          "MultiScaleRoIAlign: each level must be half as large as the one before, found ", level);
  }
  const Tensor all = numbered("MultiScaleRoIAlign", boxes);
  const std::vector<double> list = all.to_vector<double>();
  std::vector<std::vector<std::int64_t>> at(levels.size());  // box indices per level
  for (std::size_t k = 0; k < list.size(); k += 5) {
    const double size = std::sqrt((list[k + 3] - list[k + 1]) * (list[k + 4] - list[k + 2]));
    const double level = std::floor(canonical_level + std::log2(size / canonical_size) + 1e-6);
    const double held = std::isnan(level) ? halvings.front()
                                          : std::clamp<double>(level, halvings.front(), halvings.back());
    at[static_cast<std::size_t>(held - halvings.front())].push_back(static_cast<std::int64_t>(k / 5));
  }
  std::vector<Tensor> parts;
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Tensor chosen = from_data(at[i], {static_cast<std::int64_t>(at[i].size())});
    const Tensor mine = index_select(all, 0, chosen.to(all.device()));
    parts.push_back(roi_align(levels[i], mine, output_size,
                              {.spatial_scale = std::ldexp(1.0, -halvings[i]), .sampling_ratio = sampling_ratio}));
    order.insert(order.end(), at[i].begin(), at[i].end());
  }
  const Tensor back = argsort(from_data(order, {static_cast<std::int64_t>(order.size())}));
  return index_select(cat(parts), 0, back.to(levels[0].device()));
}

}  // namespace mantissa::nn
