#include "nn/onnx_resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mantissa::nn::onnx {
namespace {

struct Resizing {
  std::string mode, coordinates, nearest, policy;  // attribute values
  double cubic = -0.75, outside_value = 0;
  bool exclude_outside = false, antialias = false;
};

// One dimension: resized from `size` to `wanted`, by a factor of `scale`.
struct Line {
  std::int64_t size, wanted;
  double scale, begin, end;  // begin and end: the region of tf_crop_and_resize

  // The input coordinate of output pixel i.
  double place(const Resizing& r, std::int64_t i) const {
    const double x = static_cast<double>(i), n = static_cast<double>(size), m = static_cast<double>(wanted);
    const std::string& c = r.coordinates;
    if (c == "asymmetric") return x / scale;
    if (c == "align_corners") return wanted > 1 ? x * (n - 1) / (n * scale - 1) : 0;
    if (c == "pytorch_half_pixel") return wanted > 1 ? (x + 0.5) / scale - 0.5 : 0;
    if (c == "tf_crop_and_resize")
      return wanted > 1 ? begin * (n - 1) + x * (end - begin) * (n - 1) / (m - 1) : 0.5 * (begin + end) * (n - 1);
    if (c == "tf_half_pixel_for_nn") return (x + 0.5) / scale;
    if (c == "half_pixel_symmetric") return n / 2 * (1 - m / (scale * n)) + (x + 0.5) / scale - 0.5;
    return (x + 0.5) / scale - 0.5;  // half_pixel
  }
};

std::int64_t nearest_pixel(const std::string& how, double x) {
  const double low = std::floor(x), part = x - low;
  if (how == "floor") return static_cast<std::int64_t>(low);
  if (how == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  if (how == "round_prefer_ceil") return static_cast<std::int64_t>(part >= 0.5 ? low + 1 : low);
  return static_cast<std::int64_t>(part > 0.5 ? low + 1 : low);
}
// The weight of a pixel at distance `d`.
double weight_at(const Resizing& r, double d) {
  d = std::abs(d);
  if (r.mode == "linear") return std::max(0.0, 1 - d);
  const double a = r.cubic;  // Keys (1981)
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}
// [wanted, size]; also sets which output pixels lie outside the image.
Tensor matrix(const Resizing& r, const Line& l, std::vector<bool>& outside) {
  std::vector<double> m(static_cast<std::size_t>(l.wanted * l.size));
  const double wider = r.antialias ? std::max(1.0, 1 / l.scale) : 1, reach = (r.mode == "linear" ? 1 : 2) * wider;
  for (std::int64_t i = 0; i < l.wanted; ++i) {
    const double x = l.place(r, i);
    outside[static_cast<std::size_t>(i)] = x < 0 || x > static_cast<double>(l.size - 1);
    double* row = m.data() + i * l.size;
    double total = 0;
    for (auto k = static_cast<std::int64_t>(std::ceil(x - reach)); static_cast<double>(k) <= x + reach; ++k) {
      const bool inside = k >= 0 && k < l.size;
      if (!inside && r.exclude_outside) continue;
      const double w = weight_at(r, (static_cast<double>(k) - x) / wider);
      row[std::clamp<std::int64_t>(k, 0, l.size - 1)] += w;
      total += w;
    }
    for (std::int64_t k = 0; k < l.size && total != 0; ++k) row[k] /= total;
  }
  return from_data(m, {l.wanted, l.size});
}

Tensor along(const Tensor& x, int d, const Resizing& r, const Line& l) {
  std::vector<bool> outside(static_cast<std::size_t>(l.wanted));
  Tensor y;
  if (r.mode == "nearest") {
    Integers from;
    for (std::int64_t i = 0; i < l.wanted; ++i) {
      const double at = l.place(r, i);
      outside[static_cast<std::size_t>(i)] = at < 0 || at > static_cast<double>(l.size - 1);
      from.push_back(std::clamp<std::int64_t>(nearest_pixel(r.nearest, at), 0, l.size - 1));
    }
    y = index_select(x, d, from_data(from, {l.wanted}).to(x.device()));
  } else {
    const Dtype wide = x.is_floating() ? x.dtype() : f32;
    const Tensor m = cast(matrix(r, l, outside), wide).to(x.device());
    y = cast(movedim(linear(cast(movedim(x, {d}, {-1}), wide), m), {-1}, {d}), x.dtype());
  }
  if (r.coordinates != "tf_crop_and_resize") return y;
  std::vector<double> beyond(outside.begin(), outside.end());
  Dims sizes = Dims::filled(x.dim(), 1);
  sizes[d] = l.wanted;
  return masked_fill(y, reshape(from_data(beyond, {l.wanted}), sizes).to(boolean).to(x.device()), r.outside_value);
}

// The equivalent mode of interpolate(), or null.
const char* ours(const Resizing& r, const Tensor& x, const std::vector<Line>& lines) {
  if (x.dim() != 4 || !x.is_floating() || r.antialias || r.exclude_outside) return nullptr;
  if (lines[0].wanted != lines[0].size || lines[1].wanted != lines[1].size) return nullptr;
  for (const Line& l : lines) {  // interpolate() derives the scale from the sizes
    const double exact = static_cast<double>(l.wanted) / static_cast<double>(l.size);
    if (l.scale != exact || (l.wanted == 1 && l.size > 1 && r.mode != "nearest")) return nullptr;
  }
  const bool half =
      r.coordinates == "half_pixel" || r.coordinates == "pytorch_half_pixel" || r.coordinates == "half_pixel_symmetric";
  if (r.mode == "nearest") return r.coordinates == "asymmetric" && r.nearest == "floor" ? "nearest" : nullptr;
  if (!half && r.coordinates != "align_corners") return nullptr;
  return r.mode == "linear" ? "bilinear" : r.cubic == -0.75 ? "bicubic" : nullptr;
}

}  // namespace

Run resize(Node& n) {
  static constexpr std::string_view known[] = {"half_pixel",          "asymmetric",         "align_corners",
                                               "pytorch_half_pixel",  "tf_crop_and_resize", "tf_half_pixel_for_nn",
                                               "half_pixel_symmetric"};
  Resizing r;
  const bool old = n.opset < 11;  // Upsample, and Resize of opset 10: X, scales
  r.mode = n.s("mode", "nearest");
  r.coordinates = n.s("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  r.nearest = n.s("nearest_mode", old ? "floor" : "round_prefer_floor");
  r.policy = n.s("keep_aspect_ratio_policy", "stretch");
  r.cubic = n.f("cubic_coeff_a", -0.75);
  r.outside_value = n.f("extrapolation_value", 0);
  r.exclude_outside = n.i("exclude_outside", 0) != 0;
  r.antialias = n.i("antialias", 0) != 0;
  if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic") n.refuse("the mode ", r.mode);
  if (std::ranges::find(known, r.coordinates) == std::end(known)) n.refuse("the coordinates are ", r.coordinates);
  const auto axes = n.integers("axes");
  const auto fixed = n.numbers("scales");  // attribute of Upsample before opset 9
  const int at = old ? 1 : 2;
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    Integers dims(static_cast<std::size_t>(x.dim()));
    std::iota(dims.begin(), dims.end(), 0);
    if (axes) dims.assign(axes->begin(), axes->end());
    std::vector<double> scales = fixed.value_or(std::vector<double>());
    if (in.has(at) && in.all[static_cast<std::size_t>(at)].numel() > 0)
      scales = in.all[static_cast<std::size_t>(at)].to_vector<double>();
    const Integers sizes = !old && in.has(3) ? in.integers(3) : Integers{};
    check((scales.empty() ? sizes.size() : scales.size()) == dims.size(), "has ", scales.size(), " scales and ",
          sizes.size(), " sizes for ", dims.size(), " dimensions");
    std::vector<Line> lines;
    for (int d = 0; d < x.dim(); ++d) lines.push_back({x.size(d), x.size(d), 1, 0, 1});
    double common = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      Line& l = lines[static_cast<std::size_t>(wrap_dim(dims[i], x.dim()))];
      l.scale = scales.empty() ? static_cast<double>(sizes[i]) / static_cast<double>(l.size) : scales[i];
      check(l.size > 0 && l.scale > 0 && l.scale < 1e9, "a scale is ", l.scale);
      const bool smaller = r.policy == "not_larger";
      common = i == 0 ? l.scale : smaller ? std::min(common, l.scale) : std::max(common, l.scale);
    }
    for (std::size_t i = 0; i < dims.size(); ++i) {
      Line& l = lines[static_cast<std::size_t>(wrap_dim(dims[i], x.dim()))];
      if (r.policy != "stretch" && scales.empty()) {
        l.scale = common;
        l.wanted = static_cast<std::int64_t>(std::floor(common * static_cast<double>(l.size) + 0.5));
      } else {
        l.wanted =
            scales.empty() ? sizes[i]  // the product in f32: 0.7 of 10 pixels are 7
                           : static_cast<std::int64_t>(
                                 std::floor(static_cast<float>(l.scale) * static_cast<float>(l.size)));
      }
      check(l.wanted >= 0 && l.wanted <= INT32_MAX && l.size <= INT32_MAX, "of ", l.size, " pixels ", l.wanted);
      if (r.coordinates != "tf_crop_and_resize") continue;
      check(in.has(1) && in.all[1].numel() == static_cast<std::int64_t>(2 * dims.size()), "roi is missing");
      const std::vector<double> region = in.all[1].to_vector<double>();
      l.begin = region[i], l.end = region[i + dims.size()];
    }
    if (const char* mode = ours(r, x, lines))
      return {interpolate(x, {.size = {lines[2].wanted, lines[3].wanted},
                              .mode = mode,
                              .align_corners = r.coordinates == "align_corners"})};
    Tensor y = x;
    for (int d = 0; d < x.dim(); ++d) {
      const Line& l = lines[static_cast<std::size_t>(d)];
      if (l.wanted != l.size || l.scale != 1 || r.coordinates == "tf_crop_and_resize") y = along(y, d, r, l);
    }
    return {y};
  };
}

}  // namespace mantissa::nn::onnx
