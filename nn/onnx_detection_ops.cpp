// ONNX's operators of detectors (nn/onnx_program.h): which boxes to keep, and what a picture has in them.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "nn/onnx_program.h"

namespace mantissa::nn::onnx {
namespace {

using Box = std::array<double, 4>;  // y1, x1, y2, x2, the lower ones first

double area(const Box& b) { return (b[2] - b[0]) * (b[3] - b[1]); }
double overlap(const Box& a, const Box& b) {  // intersection over union
  const double h = std::min(a[2], b[2]) - std::max(a[0], b[0]), w = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  const double both = std::max(h, 0.0) * std::max(w, 0.0), all = area(a) + area(b) - both;
  return all > 0 ? both / all : 0;
}

// Of each class the boxes by falling score that do not overlap a kept one too far. Computed on the host.
Run non_max_suppression(Node& n) {
  const bool centred = n.i("center_point_box", 0) != 0;
  return [=](const Inputs& in) -> Tensors {
    const Tensor boxes = in.all[0].to(cpu), scores = in.all[1].to(cpu);
    check(boxes.dim() == 3 && boxes.size(2) == 4 && scores.dim() == 3 && scores.size(0) == boxes.size(0) &&
              scores.size(2) == boxes.size(1),
          "needs boxes [N, B, 4] and scores [N, C, B], got ", boxes, " and ", scores);
    const std::int64_t most = in.has(2) ? in.integer(2) : 0, count = boxes.size(1), classes = scores.size(1);
    const double too_far = in.has(3) ? in.number(3) : 0, least = in.has(4) ? in.number(4) : -HUGE_VAL;
    const std::vector<double> b = boxes.to_vector<double>(), s = scores.to_vector<double>();
    const auto box = [&](std::int64_t i) -> Box {
      const double* p = b.data() + 4 * i;
      if (centred) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
      return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
    };
    Integers kept;  // image, class, box
    for (std::int64_t plane = 0; plane < boxes.size(0) * classes; ++plane) {
      const std::int64_t image = plane / classes;
      const double* score = s.data() + plane * count;
      Integers order;
      for (std::int64_t i = 0; i < count; ++i)
        if (score[i] > least) order.push_back(i);
      std::ranges::stable_sort(order, [&](std::int64_t i, std::int64_t k) { return score[i] > score[k]; });
      std::vector<Box> chosen;
      for (const std::int64_t i : order) {
        if (static_cast<std::int64_t>(chosen.size()) >= most) break;
        const Box mine = box(image * count + i);
        if (std::ranges::any_of(chosen, [&](const Box& other) { return overlap(mine, other) > too_far; })) continue;
        chosen.push_back(mine);
        kept.insert(kept.end(), {image, plane % classes, i});
      }
    }
    return {from_data(kept, {static_cast<std::int64_t>(kept.size()) / 3, 3}).to(in.device)};
  };
}

// How much of each of `size` pixels is in each of `bins` parts of [begin, begin + length): the mean of `samples`
// points in a part (0: as many as the part has pixels), each between two pixels. [bins, size]
Tensor parts(std::int64_t size, std::int64_t bins, double begin, double length, std::int64_t samples) {
  const double part = length / static_cast<double>(bins);
  const std::int64_t points =
      samples > 0 ? samples : std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(part)));
  check(std::isfinite(begin) && std::isfinite(part) && points <= 1 << 20, "a region is ", begin, " + ", length);
  std::vector<double> m(static_cast<std::size_t>(bins * size));
  for (std::int64_t i = 0; i < bins; ++i) {
    for (std::int64_t k = 0; k < points; ++k) {
      double x = begin + part * (static_cast<double>(i) + (static_cast<double>(k) + 0.5) / static_cast<double>(points));
      if (x < -1 || x > static_cast<double>(size)) continue;
      x = std::clamp(x, 0.0, static_cast<double>(size - 1));
      const auto low = static_cast<std::int64_t>(x), high = std::min(low + 1, size - 1);
      const double to_high = x - static_cast<double>(low), one = 1 / static_cast<double>(points);
      m[static_cast<std::size_t>(i * size + low)] += (1 - to_high) * one;
      m[static_cast<std::size_t>(i * size + high)] += to_high * one;
    }
  }
  return from_data(m, {bins, size});
}
// He et al. (2017): the regions of pictures as images of one size; two products each.
Run roi_align(Node& n) {
  const std::int64_t height = n.i("output_height", 1), width = n.i("output_width", 1),
                     samples = n.i("sampling_ratio", 0);
  const double scale = n.f("spatial_scale", 1);
  const std::string coordinates =
      n.s("coordinate_transformation_mode", n.opset < 16 ? "output_half_pixel" : "half_pixel");
  if (n.s("mode", "avg") != "avg") n.refuse("of maxima");
  if (height < 1 || width < 1 || height > 4096 || width > 4096 || samples > 4096) n.refuse("of such a size");
  const bool half = coordinates == "half_pixel";
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    check(x.dim() == 4 && x.numel() > 0 && in.all[1].dim() == 2 && in.all[1].size(1) == 4,
          "needs x [N, C, H, W] and regions [K, 4], got ", x, " and ", in.all[1]);
    const std::vector<double> r = in.all[1].to_vector<double>();
    const Integers image = in.integers(2);
    check(image.size() * 4 == r.size(), "needs an image for each region");
    Tensors y;
    for (std::size_t k = 0; k < image.size(); ++k) {
      const double shift = half ? 0.5 : 0, left = r[4 * k] * scale - shift, top = r[4 * k + 1] * scale - shift;
      double w = r[4 * k + 2] * scale - shift - left, h = r[4 * k + 3] * scale - shift - top;
      if (!half) w = std::max(w, 1.0), h = std::max(h, 1.0);
      const auto on = [&](const Tensor& m) { return cast(m, x.dtype()).to(x.device()); };
      const Tensor rows = on(parts(x.size(2), height, top, h, samples)),
                   columns = on(parts(x.size(3), width, left, w, samples));
      y.push_back(matmul(rows, linear(select(x, 0, image[k]), columns)));
    }
    if (y.empty()) return {zeros({0, x.size(1), height, width}, {.dtype = x.dtype(), .device = x.device()})};
    return {stack(y)};
  };
}

constexpr Operator operators[] = {
    {"NonMaxSuppression", 2, 5, non_max_suppression},
    {"RoiAlign", 3, 3, roi_align},
};

}  // namespace

std::span<const Operator> detection_operators() { return operators; }

}  // namespace mantissa::nn::onnx
