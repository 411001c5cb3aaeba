// ONNX's detection operators (nn/onnx_program.h): non-maximum suppression and region pooling.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "nn/onnx_program.h"
#include "nn/roi_align.h"

namespace mantissa::nn::onnx {
namespace {

using Box = std::array<double, 4>;  // y1, x1, y2, x2, the smaller ones first

double area(const Box& b) { return (b[2] - b[0]) * (b[3] - b[1]); }
double overlap(const Box& a, const Box& b) {  // intersection over union
  const double h = std::min(a[2], b[2]) - std::max(a[0], b[0]), w = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  const double both = std::max(h, 0.0) * std::max(w, 0.0), all = area(a) + area(b) - both;
  return all > 0 ? both / all : 0;
}

// Per class, the boxes by descending score whose overlap with every kept box is small enough. Computed on the host.
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

// He et al. (2017): resamples image regions to a fixed size.
Run roi_align(Node& n) {
  const std::int64_t height = n.i("output_height", 1), width = n.i("output_width", 1),
                     samples = n.i("sampling_ratio", 0);
  const double scale = n.f("spatial_scale", 1);
  const std::string coordinates =
      n.s("coordinate_transformation_mode", n.opset < 16 ? "output_half_pixel" : "half_pixel");
  if (n.s("mode", "avg") != "avg") n.refuse("of maxima");
  if (height < 1 || width < 1 || height > 4096 || width > 4096 || samples > 4096) n.refuse("of such a size");
  const RoiAlignOptions options{
      .spatial_scale = scale, .sampling_ratio = samples, .aligned = coordinates == "half_pixel"};
  return [=](const Inputs& in) -> Tensors {
    const Tensor &x = in[0], &regions = in.all[1];
    check(x.dim() == 4 && x.numel() > 0 && regions.dim() == 2 && regions.size(1) == 4,
          "needs x [N, C, H, W] and regions [K, 4], got ", x, " and ", regions);
    const Integers image = in.integers(2);
    check(static_cast<std::int64_t>(image.size()) == regions.size(0), "needs an image for each region");
    const Tensor numbers = from_data(image, {regions.size(0), 1}).to(f64);
    return {nn::roi_align(x, cat({numbers, regions.to(cpu).to(f64)}, 1),
                          {static_cast<int>(height), static_cast<int>(width)}, options)};
  };
}

constexpr Operator operators[] = {
    {"NonMaxSuppression", 2, 5, non_max_suppression},
    {"RoiAlign", 3, 3, roi_align},
};

}  // namespace

std::span<const Operator> detection_operators() { return operators; }

}  // namespace mantissa::nn::onnx
