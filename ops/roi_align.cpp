// roi_align and ps_roi_align (nn/roi_align.h) as one operator: two kernels (core/roi_align.h), and for second
// derivatives a composition of matrix products, region by region.
#include "core/roi_align.h"

#include <algorithm>
#include <utility>

#include "autograd/backward.h"
#include "ops/compose.h"
#include "ops/onnx.h"

namespace mantissa {
namespace {

// By products, for which the boxes are copied to the host.
struct Composition {
  // What the bins of one direction take of `size` pixels, [bins, size].
  static Tensor shares(const RegionSpan& span, std::int64_t bins, std::int64_t size, const Tensor& x) {
    std::vector<double> all(static_cast<std::size_t>(bins * size));
    for (std::int64_t i = 0; i < bins; ++i) {
      double* of_bin = all.data() + i * size;
      span.for_shares(i, size, [&](std::int64_t pixel, double s) { of_bin[pixel] += s; });
    }
    return cast(from_data(all, {bins, size}), x.dtype()).to(x.device());
  }
  static Tensor of(const Tensor& x, const Tensor& boxes, const RegionReading& how) {
    const std::vector<double> list = boxes.to_vector<double>();
    std::vector<Tensor> y;
    for (std::size_t k = 0; k < list.size(); k += 5) {
      const double* box = list.data() + k;
      const Tensor image = select(x, 0, static_cast<std::int64_t>(box[0]));
      const Tensor rows = shares(RegionSpan(box, 0, how), how.height, x.size(2), x),
                   columns = shares(RegionSpan(box, 1, how), how.width, x.size(3), x);
      y.push_back(how.by_position
                      ? einsum("ih,jw,cijhw->cij", {rows, columns, unflatten(image, 0, {-1, how.height, how.width})})
                      : matmul(matmul(rows, image), transpose(columns)));
    }
    return stack(y);
  }
};

struct AverageRegionsGradient {
  static constexpr auto name = "roi_align_gradient";
  static constexpr const char* args[] = {"gradient", "boxes"};
  RegionReading how;
  Layout layout;
  Dims x_sizes;
  Spec infer(const Tensor& g, const Tensor&) const { return {x_sizes, g.dtype(), g.device(), layout}; }
  void run(const View& dx, const View& g, const View& boxes) const {
    kernels::average_regions_gradient(dx.device, dx, g, boxes, how);
  }
  static Tensor reference(const AverageRegionsGradient& op, const Tensor& g, const Tensor& boxes) {
    const Tensor x = zeros(op.x_sizes, {.dtype = g.dtype(), .device = g.device(), .requires_grad = true});
    return grad(Composition::of(x, boxes, op.how), x, g, {.create_graph = true})[0];
  }
};
struct AverageRegions {
  static constexpr auto name = "roi_align_forward";
  static constexpr const char* args[] = {"x", "boxes"};
  RegionReading how;
  Layout layout;  // of x
  Spec infer(const Tensor& x, const Tensor& boxes) const {
    const std::int64_t each = how.by_position ? how.height * how.width : 1;
    return like(x, {boxes.size(0), x.size(1) / each, how.height, how.width});
  }
  void run(const View& y, const View& x, const View& boxes) const {
    kernels::average_regions(y.device, y, x, boxes, how);
  }
  void onnx(OnnxCall& c) const {
    if (how.by_position) c.refuse("ONNX has no averages that are sensitive to position");
    if (how.aligned && c.opset() < 16) c.refuse("aligned regions need opset 16");
    const auto columns = [&](std::int64_t from, std::int64_t to) {
      return c.node("Slice", {c.in(1), c.ints({from}), c.ints({to}), c.ints({1})});
    };
    const OnnxId picture = c.cast(c.node("Reshape", {columns(0, 1), c.ints({-1})}), i64),
                 region = c.cast(columns(1, 5), c.x(0).dtype());
    std::vector<OnnxAttribute> attributes{{"mode", "avg"},
                                          {"output_height", how.height},
                                          {"output_width", how.width},
                                          {"sampling_ratio", std::max<std::int64_t>(how.samples, 0)},
                                          {"spatial_scale", how.scale}};
    if (c.opset() >= 16)
      attributes.emplace_back("coordinate_transformation_mode", how.aligned ? "half_pixel" : "output_half_pixel");
    c.result(c.node("RoiAlign", {c.in(0), region, picture}, std::move(attributes)));
  }
  static constexpr auto vjp() {
    return rules(
        [](const AverageRegions& op, Grad g, Shape<0> x, In<1> boxes) {
          return apply(AverageRegionsGradient{op.how, op.layout, x.sizes}, contiguous(g), boxes);
        },
        no_gradient);
  }
};

struct RoiAlign {
  static constexpr auto name = "roi_align";
  static constexpr const char* args[] = {"x", "boxes"};
  static constexpr auto autocast = CastPolicy::f32_inside;
  static constexpr bool differentiable = true;
  static constexpr std::uint64_t constants = 2;  // the boxes
  RegionReading how;

  void check_inputs(const Tensor& x, const Tensor& boxes) const {
    check(x.defined() && x.dim() == 4 && x.numel() > 0 && x.is_floating(), "x must be floating [N, C, H, W]");
    check(boxes.defined() && boxes.dim() == 2 && boxes.size(1) == 5,
          "boxes must be [K, 5], the number of the picture, x1, y1, x2, y2, or a list with those of each picture, "
          "[K, 4]");
    check(how.height >= 1 && how.width >= 1, "output_size must be positive, got ", how.height, " x ", how.width);
    check(how.samples <= 4096, "sampling_ratio is at most 4096, got ", how.samples);
    check(!how.by_position || x.size(1) % (how.height * how.width) == 0, "x must have C * ", how.height, " * ",
          how.width, " channels");
  }
  static Tensor compose(const RoiAlign& op, const Tensor& x, const Tensor& boxes) {
    op.check_inputs(x, boxes);
    if (boxes.size(0) == 0) {  // keeps a gradient of zeros
      const std::int64_t each = op.how.by_position ? op.how.height * op.how.width : 1;
      return reshape(narrow(x, 0, 0, 0), {0, x.size(1) / each, op.how.height, op.how.width});
    }
    const Layout layout = x.layout();
    const Tensor images = layout == Layout::channels_last ? x : contiguous(x);
    return apply(AverageRegions{op.how, layout}, images, contiguous(cast(boxes.detach(), f64)));
  }
  static void samples(Samples& s) {
    // The picture and two corners: one region reaches outside, one is smaller than a pixel.
    const Tensor boxes = tensor({{0.0, 0.75, 1.25, 4.5, 3.75},  //
                                 {1.0, -2.25, 0.5, 3.25, 7.25},
                                 {1.0, 2.0, 2.0, 2.5, 2.25}},
                                {.dtype = f64});
    composed(s, {s.randn({2, 3, 5, 6}), boxes}, RoiAlign{{.height = 2, .width = 3}});
    composed(s, {s.randn({2, 2, 5, 6}), boxes},
             RoiAlign{{.height = 2, .width = 2, .scale = 0.5, .samples = 2, .aligned = true}});
    composed(s, {s.randn({2, 8, 5, 6}), boxes},
             RoiAlign{{.height = 2, .width = 2, .samples = 2, .aligned = true, .by_position = true}});
    composed_error(s, {s.randn({3, 5, 6}), boxes}, RoiAlign{}, "x must be floating [N, C, H, W]");
    composed_error(s, {s.randn({2, 3, 5, 6}), s.randn({3, 4})}, RoiAlign{}, "boxes must be [K, 5]");
    composed_error(s, {s.randn({2, 3, 5, 6}), boxes}, RoiAlign{{.height = 0}}, "must be positive, got 0 x 1");
    composed_error(s, {s.randn({2, 3, 5, 6}), boxes}, RoiAlign{{.samples = 5000}}, "sampling_ratio is at most 4096");
    composed_error(s, {s.randn({2, 3, 5, 6}), boxes}, RoiAlign{{.height = 2, .by_position = true}},
                   "x must have C * 2 * 1 channels");
  }
};
MANTISSA_OP(RoiAlign)

}  // namespace

Tensor average_regions(const Tensor& x, const Tensor& boxes, const RegionReading& how) {
  return apply_composed(RoiAlign{how}, x, boxes);
}

}  // namespace mantissa
