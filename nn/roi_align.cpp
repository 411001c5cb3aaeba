#include "nn/roi_align.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "amp/autocast.h"
#include "core/ops.h"
#include "ops/function.h"

namespace mantissa::nn {
namespace {

// Weights of each of `size` pixels in `bins` equal parts of [begin, begin + length): each bin averages `samples`
// linearly interpolated points (0: as many as it covers pixels, which of nothing are none). Only the range of pixels
// with weights, from `first` on: [bins, count].
struct Parts {
  std::int64_t first;
  Tensor shares;
};
Parts parts(std::int64_t size, std::int64_t bins, double begin, double length, std::int64_t samples) {
  const double part = length / static_cast<double>(bins);
  const std::int64_t points =
      samples > 0 ? samples : std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(part)));
  check(std::isfinite(begin) && std::isfinite(part) && points <= 1 << 20, "roi_align: a region is ", begin, " + ",
        length);
  const auto pixel = [&](double x) {
    return static_cast<std::int64_t>(std::clamp(std::floor(x), 0.0, static_cast<double>(size - 1)));
  };
  const std::int64_t first = pixel(std::min(begin, begin + length)),
                     count = std::min(pixel(std::max(begin, begin + length)) + 2, size) - first;
  std::vector<double> shares(static_cast<std::size_t>(bins * count));
  for (std::int64_t i = 0; i < bins; ++i) {
    for (std::int64_t k = 0; k < points; ++k) {
      double x = begin + part * (static_cast<double>(i) + (static_cast<double>(k) + 0.5) / static_cast<double>(points));
      if (x < -1 || x > static_cast<double>(size)) continue;
      x = std::clamp(x, 0.0, static_cast<double>(size - 1));
      const auto low = static_cast<std::int64_t>(x), high = std::min(low + 1, size - 1);
      const double to_high = x - static_cast<double>(low), one = 1 / static_cast<double>(points);
      shares[static_cast<std::size_t>(i * count + low - first)] += (1 - to_high) * one;
      shares[static_cast<std::size_t>(i * count + high - first)] += to_high * one;
    }
  }
  return {first, from_data(shares, {bins, count})};
}

struct Region {
  std::int64_t picture;
  Parts rows, columns;
};

// Gradients are accumulated per region, so that each costs time for its own area and not for all of x.
struct Align {
  static constexpr auto name = "roi_align";
  static constexpr bool once_differentiable = true;  // writes in place
  Dims sizes;                                        // of x
  bool by_position;                                  // ps_roi_align: each bin reads its own channel
  std::shared_ptr<const std::vector<Region>> regions;

  static Tensor pixels(const Tensor& x, const Region& r) {
    const Tensor rows = narrow(select(x, 0, r.picture), 1, r.rows.first, r.rows.shares.size(1));
    return narrow(rows, 2, r.columns.first, r.columns.shares.size(1));
  }
  Tensor forward(Saved&, const Tensor& x) const {
    std::vector<Tensor> y;
    for (const Region& r : *regions) {
      if (by_position)
        y.push_back(einsum("ih,jw,cijhw->cij", {r.rows.shares, r.columns.shares, by_bin(pixels(x, r), r)}));
      else y.push_back(matmul(r.rows.shares, linear(pixels(x, r), r.columns.shares)));
    }
    return stack(y);
  }
  static Tensor by_bin(const Tensor& pixels, const Region& r) {  // [C, height, width, h, w]
    return unflatten(pixels, 0, {-1, r.rows.shares.size(0), r.columns.shares.size(0)});
  }
  std::vector<Tensor> backward(const Saved&, const Tensor& g) const {
    const Tensor all = zeros(sizes, {.dtype = g.dtype(), .device = g.device()});
    for (std::size_t k = 0; k < regions->size(); ++k) {
      const Region& r = (*regions)[k];
      const Tensor gk = g[static_cast<std::int64_t>(k)];
      const Tensor of_region =
          by_position ? flatten(einsum("ih,jw,cij->cijhw", {r.rows.shares, r.columns.shares, gk}), 0, 2)
                      : matmul(matmul(r.rows.shares.t(), gk), r.columns.shares);
      pixels(all, r).add_(of_region);
    }
    return {all};
  }
};

Tensor align(const char* name, bool by_position, const Tensor& x, const Tensor& boxes, PerDim<2> output_size,
             const RoiAlignOptions& o) {
  check(x.defined() && x.dim() == 4 && x.numel() > 0 && x.is_floating(), name, ": x must be [N, C, H, W], got ", x);
  check(boxes.defined() && boxes.dim() == 2 && boxes.size(1) == 5, name,
        ": boxes must be [K, 5], the number of the picture, x1, y1, x2, y2, or a list with those of each "
        "picture [K, 4], got ",
        boxes);
  const auto [height, width] = std::pair<std::int64_t, std::int64_t>(output_size[0], output_size[1]);
  check(height >= 1 && width >= 1, name, ": output_size must be positive, got ", height, " x ", width);
  check(o.sampling_ratio <= 4096, name, ": sampling_ratio is at most 4096, got ", o.sampling_ratio);
  const std::int64_t channels = by_position ? x.size(1) / (height * width) : x.size(1);
  check(!by_position || channels * height * width == x.size(1), name, ": x must have C * ", height, " * ", width,
        " channels, got ", x);
  const amp::Autocast off(amp::disabled);
  const Tensor pictures = is_half(x.dtype()) ? cast(x, f32) : x;
  const std::vector<double> list = boxes.to_vector<double>();
  if (list.empty()) return reshape(narrow(x, 0, 0, 0), {0, channels, height, width});  // keeps a gradient of zeros
  const auto on_device = [&](Parts p) { return Parts{p.first, cast(p.shares, pictures.dtype()).to(x.device())}; };
  auto regions = std::make_shared<std::vector<Region>>();
  for (std::size_t k = 0; k < list.size(); k += 5) {
    const double* box = list.data() + k;
    check(box[0] >= 0 && box[0] < static_cast<double>(x.size(0)) && box[0] == std::floor(box[0]), name, ": box ",
          k / 5, " is of picture ", box[0], ", and x has ", x.size(0));
    const double shift = o.aligned ? 0.5 : 0, left = box[1] * o.spatial_scale - shift,
                 top = box[2] * o.spatial_scale - shift;
    double w = box[3] * o.spatial_scale - shift - left, h = box[4] * o.spatial_scale - shift - top;
    if (!o.aligned) w = std::max(w, 1.0), h = std::max(h, 1.0);
    regions->push_back({static_cast<std::int64_t>(box[0]),
                        on_device(parts(x.size(2), height, top, h, o.sampling_ratio)),
                        on_device(parts(x.size(3), width, left, w, o.sampling_ratio))});
  }
  return cast(apply_function(Align{pictures.sizes(), by_position, std::move(regions)}, pictures), x.dtype());
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
  return align("roi_align", false, x, boxes, output_size, options);
}
Tensor roi_align(const Tensor& x, const std::vector<Tensor>& boxes, PerDim<2> output_size, const RoiAlignOptions& o) {
  check(x.defined() && x.dim() == 4 && static_cast<std::int64_t>(boxes.size()) == x.size(0),
        "roi_align: needs the boxes of each picture of x, got ", boxes.size(), " lists for ", x);
  return roi_align(x, numbered("roi_align", boxes), output_size, o);
}
Tensor ps_roi_align(const Tensor& x, const Tensor& boxes, PerDim<2> output_size, const RoiAlignOptions& options) {
  RoiAlignOptions o = options;
  o.aligned = true;
  return align("ps_roi_align", true, x, boxes, output_size, o);
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
