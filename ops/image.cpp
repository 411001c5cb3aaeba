// Image operators: pixel_shuffle (Shi et al., 2016), interpolate, unfold and fold. Interpolation is a weighted sum of a
// few taps along each dimension (ops/resample.h); positions and weights follow PyTorch. f16 and bf16 are computed in
// f32 and rounded once.
#include <algorithm>
#include <cmath>

#include "core/ops.h"
#include "ops/compose.h"
#include "ops/device_table.h"
#include "ops/no_batch.h"
#include "ops/resample.h"

namespace mantissa {
namespace {

Tensor widened(const Tensor& x) { return is_half(x.dtype()) ? cast(x, f32) : x; }

// The sizes of x with the last three replaced.
Dims with_plane(const Dims& x, std::int64_t channels, std::int64_t height, std::int64_t width) {
  Dims sizes = x;
  const int n = sizes.rank();
  sizes[n - 3] = channels;
  sizes[n - 2] = height;
  sizes[n - 1] = width;
  return sizes;
}

// --- interpolation along one dimension ---
enum class Mode { nearest, nearest_exact, linear, cubic };
double cubic_weight(double t, double a = -0.75) {  // Keys, 1981
  t = std::abs(t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((t - 5) * t + 8) * t * a - 4 * a : 0;
}
Taps taps_for(Mode mode, std::int64_t in, std::int64_t out, double ratio, bool align_corners, bool in_f64) {
  const int count = mode == Mode::linear ? 2 : mode == Mode::cubic ? 4 : 1;
  Taps taps;
  taps.in = in;
  for (std::int64_t i = 0; i < out; ++i) {
    const auto position = static_cast<double>(i);
    double source = align_corners ? position * ratio : (position + 0.5) * ratio - 0.5;
    if (mode == Mode::nearest || mode == Mode::nearest_exact) {
      const double step = mode == Mode::nearest ? position : position + 0.5;
      // as PyTorch: rounded to f32 at the end, even for f64
      source = static_cast<double>(in_f64 ? static_cast<float>(step * ratio)
                                          : static_cast<float>(step) * static_cast<float>(ratio));
    } else if (mode == Mode::linear) {
      source = std::max(source, 0.0);
    }
    const auto first = static_cast<std::int64_t>(std::floor(source)) - (count == 4 ? 1 : 0);
    for (int k = 0; k < count; ++k) {
      const double distance = source - static_cast<double>(first + k);
      taps.add(std::clamp<std::int64_t>(first + k, 0, in - 1), count == 1   ? 1
                                                               : count == 2 ? 1 - std::abs(distance)
                                                                            : cubic_weight(distance));
    }
    taps.end_result();
  }
  return taps;
}
// Taps of a filter as wide as the step between results, with weights normalized to sum to 1; as in PyTorch and Pillow,
// cubic uses a = -0.5 here.
Taps antialiased_taps(Mode mode, std::int64_t in, std::int64_t out, double ratio) {
  const double stretch = std::max(ratio, 1.0), support = (mode == Mode::cubic ? 2 : 1) * stretch;
  Taps taps;
  taps.in = in;
  for (std::int64_t i = 0; i < out; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * ratio;  // align_corners only changes the ratio
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + 0.5), 0);
    const auto end = std::min<std::int64_t>(static_cast<std::int64_t>(centre + support + 0.5), in);
    std::vector<double> weight;
    double total = 0;
    for (std::int64_t j = first; j < end; ++j) {
      const double t = (static_cast<double>(j) - centre + 0.5) / stretch;
      weight.push_back(mode == Mode::cubic ? cubic_weight(t, -0.5) : std::max(0.0, 1 - std::abs(t)));
      total += weight.back();
    }
    for (std::int64_t j = first; j < end; ++j) taps.add(j, weight[static_cast<std::size_t>(j - first)] / total);
    taps.end_result();
  }
  return taps;
}
// Along all dimensions from the third on; those with empty taps are unchanged.
Tensor resample_all(const Tensor& x, std::vector<Taps> taps) {
  if (std::ranges::all_of(taps, [](const Taps& t) { return t.out() == 0; })) return clone(x);
  if (taps.size() < 3 || !x.device().is_cpu()) return resample(x, std::move(taps));
  const std::int64_t n = x.size(0), c = x.size(1), depth = x.size(2);
  Dims sizes = x.sizes();
  for (std::size_t d = 0; d < taps.size(); ++d)
    if (taps[d].out() > 0) sizes[static_cast<int>(d) + 2] = taps[d].out();
  Tensor y = reshape(widened(x), {n, c * depth, x.size(3), x.size(4)});
  if (taps[1].out() > 0 || taps[2].out() > 0) y = resample(y, {std::move(taps[1]), std::move(taps[2])});
  if (taps[0].out() > 0) y = resample(reshape(y, {n, c, depth, sizes[3] * sizes[4]}), {std::move(taps[0]), Taps()});
  return cast(reshape(y, sizes), x.dtype());
}

struct NamedMode {
  std::string_view name;
  Mode mode;
  int dims;
};  // dims 0: any
NamedMode mode_named(std::string_view name) {
  for (const NamedMode& m : {NamedMode{"nearest", Mode::nearest, 0},
                             {"nearest-exact", Mode::nearest_exact, 0},
                             {"linear", Mode::linear, 1},
                             {"bilinear", Mode::linear, 2},
                             {"bicubic", Mode::cubic, 2},
                             {"trilinear", Mode::linear, 3}}) {
    if (m.name == name) return m;
  }
  fail("interpolate: mode must be nearest, nearest-exact, linear, bilinear, bicubic, trilinear or area, got \"", name,
       "\"");
}

// --- unfold and fold ---
struct Windows {
  std::int64_t padded[2], count[2];
  Tensor index;  // into the padded plane, [kh * kw * places]
};
Windows windows_of(const char* name, std::int64_t height, std::int64_t width, PerDim<2> kernel, const UnfoldOptions& o,
                   Device device) {
  Windows w;
  const std::int64_t in[2] = {height, width};
  for (int d = 0; d < 2; ++d) {
    check(kernel[d] >= 1 && o.stride[d] >= 1 && o.dilation[d] >= 1 && o.padding[d] >= 0, name,
          ": kernel, stride and dilation must be at least 1 and padding at least 0");
    const std::int64_t border = o.padding[d];
    w.padded[d] = in[d] + 2 * border;
    check(w.padded[d] <= INT32_MAX, name, ": ", w.padded[d], " rows or columns, with padding, are too many");
    const std::int64_t extent = (std::int64_t{kernel[d]} - 1) * o.dilation[d] + 1;
    check(extent <= w.padded[d], name, ": a kernel that reaches over ", extent, " does not fit into ", w.padded[d],
          " (with padding)");
    w.count[d] = (w.padded[d] - extent) / o.stride[d] + 1;
  }
  const double places = 1.0 * kernel[0] * kernel[1] * static_cast<double>(w.count[0]) * static_cast<double>(w.count[1]);
  check(places < 0x1p31, name, ": ", places, " elements of windows in an image are too many");
  std::vector<std::int64_t> at;
  for (int a = 0; a < kernel[0]; ++a) {
    for (int b = 0; b < kernel[1]; ++b) {
      for (std::int64_t i = 0; i < w.count[0]; ++i) {
        for (std::int64_t j = 0; j < w.count[1]; ++j) {
          at.push_back((i * o.stride[0] + a * o.dilation[0]) * w.padded[1] + j * o.stride[1] + b * o.dilation[1]);
        }
      }
    }
  }
  w.index = device_table(at, {static_cast<std::int64_t>(at.size())}, device);
  return w;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int r) {
  check(x.dim() >= 3, "pixel_shuffle: needs at least 3 dimensions, got ", x);
  check(r >= 1 && x.size(-3) % (static_cast<std::int64_t>(r) * r) == 0, "pixel_shuffle: the channels of ", x,
        " must be a multiple of the factor ", r, " squared");
  const std::int64_t c = x.size(-3) / r / r, h = x.size(-2), w = x.size(-1);
  const Tensor y =
      permute(reshape(x, {x.numel() == 0 ? 0 : x.numel() / (x.size(-3) * h * w), c, r, r, h, w}), {0, 1, 4, 2, 5, 3});
  return reshape(y, with_plane(x.sizes(), c, h * r, w * r));
}
Tensor pixel_unshuffle(const Tensor& x, int r) {
  check(x.dim() >= 3, "pixel_unshuffle: needs at least 3 dimensions, got ", x);
  check(r >= 1 && x.size(-2) % r == 0 && x.size(-1) % r == 0, "pixel_unshuffle: height and width of ", x,
        " must be multiples of the factor ", r);
  const std::int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  const Tensor y =
      permute(reshape(x, {x.numel() == 0 ? 0 : x.numel() / (c * h * w * r * r), c, h, r, w, r}), {0, 1, 3, 5, 2, 4});
  return reshape(y, with_plane(x.sizes(), c * r * r, h, w));
}

namespace {
// Mode area: averages over the region of x that each result covers.
Tensor average_areas(const Tensor& x, const Dims& out) {
  const auto size = [&](int d) { return static_cast<int>(out[d]); };
  if (out.rank() == 1) return adaptive_avg_pool1d(x, size(0));
  return out.rank() == 2 ? adaptive_avg_pool2d(x, {size(0), size(1)})
                         : adaptive_avg_pool3d(x, {size(0), size(1), size(2)});
}
}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  const bool area = o.mode == "area";
  const NamedMode mode = area ? NamedMode{"area", Mode::nearest, 0} : mode_named(o.mode);
  const int dims = x.dim() - 2;
  check(dims >= 1 && dims <= 3, "interpolate: x must be [N, C, ...] with 1 to 3 further dimensions, got ", x);
  check(x.is_floating(), "interpolate: needs a floating dtype, got ", x);
  check(mode.dims == 0 || mode.dims == dims, "interpolate: mode ", o.mode, " is for ", mode.dims,
        " dimensions after [N, C], x is ", x);
  check(!(mode.dims == 0 && o.align_corners), "interpolate: align_corners does not apply to mode ", o.mode);
  check(o.size.empty() != o.scale_factor.empty(), "interpolate: give either size or scale_factor");
  const int given = static_cast<int>(o.size.empty() ? o.scale_factor.size() : static_cast<std::size_t>(o.size.rank()));
  check(given == 1 || given == dims, "interpolate: ", given, " sizes or factors for ", dims, " dimensions");
  check(!o.antialias || (mode.dims == 2 && mode.mode != Mode::nearest),
        "interpolate: antialias is for modes bilinear and bicubic, not ", o.mode);
  const Composite in("interpolate", CastPolicy::f32, {&x});
  Dims areas;
  std::vector<double> ratios;
  for (int d = 0; d < dims; ++d) {
    const int k = given == 1 ? 0 : d;
    const std::int64_t size = x.size(d + 2);
    const double factor = o.scale_factor.empty() ? 0 : o.scale_factor[static_cast<std::size_t>(k)];
    const double asked =
        o.size.empty() ? std::floor(static_cast<double>(size) * factor) : static_cast<double>(o.size[k]);
    check(std::abs(asked) < 0x1p31, "interpolate: a result of ", asked, " in dimension ", d + 2, " is too large");
    const auto out = static_cast<std::int64_t>(asked);
    check(size > 0 && out > 0, "interpolate: sizes must be positive, found ", size, " to ", out, " in dimension ",
          d + 2);
    double ratio = static_cast<double>(size) / static_cast<double>(out);
    if (factor > 0 && !o.recompute_scale_factor) ratio = 1 / factor;
    if (o.align_corners) ratio = out > 1 ? static_cast<double>(size - 1) / static_cast<double>(out - 1) : 0;
    areas.push_back(out);
    ratios.push_back(ratio);
  }
  if (area) return in.result(average_areas(in[0], areas));
  std::vector<Taps> taps;
  for (int d = 0; d < dims; ++d) {
    const std::int64_t size = x.size(d + 2), out = areas[d];
    const double ratio = ratios[static_cast<std::size_t>(d)];
    const bool stays = out == size && ratio == 1;
    taps.push_back(stays         ? Taps{}
                   : o.antialias ? antialiased_taps(mode.mode, size, out, ratio)
                                 : taps_for(mode.mode, size, out, ratio, o.align_corners, x.dtype() == f64));
  }
  return in.result(resample_all(in[0], std::move(taps)));
}

Tensor unfold(const Tensor& x, PerDim<2> kernel, UnfoldOptions o) {
  if (has_no_batch(x, 2)) return without_batch(unfold(as_batch(x), kernel, o));
  check(x.dim() == 4, "unfold: x must be [N, C, H, W] or [C, H, W], got ", x);
  const Windows w = windows_of("unfold", x.size(2), x.size(3), kernel, o, x.device());
  const std::int64_t n = x.size(0), c = x.size(1), places = w.count[0] * w.count[1];
  const Tensor padded = pad(x, {o.padding[1], o.padding[1], o.padding[0], o.padding[0]});
  return reshape(index_select(reshape(padded, {n, c, w.padded[0] * w.padded[1]}), 2, w.index),
                 {n, c * kernel[0] * kernel[1], places});
}
Tensor fold(const Tensor& x, PerDim<2> output, PerDim<2> kernel, UnfoldOptions o) {
  if (has_no_batch(x, 1)) return without_batch(fold(as_batch(x), output, kernel, o));
  check(x.dim() == 3, "fold: x must be [N, C * kh * kw, places] or [C * kh * kw, places], got ", x);
  const Windows w = windows_of("fold", output[0], output[1], kernel, o, x.device());
  const std::int64_t n = x.size(0), area = static_cast<std::int64_t>(kernel[0]) * kernel[1],
                     places = w.count[0] * w.count[1];
  check(x.size(1) % area == 0, "fold: dimension 1 of ", x, " is no multiple of the kernel's area ", area);
  check(x.size(2) == places, "fold: x ", x, " must have ", places, " places");
  const std::int64_t c = x.size(1) / area;
  const Tensor zero = zeros({n, c, w.padded[0] * w.padded[1]}, {.dtype = x.dtype(), .device = x.device()});
  const Tensor planes =
      reshape(index_add(zero, 2, w.index, reshape(x, {n, c, area * places})), {n, c, w.padded[0], w.padded[1]});
  return pad(planes, {-o.padding[1], -o.padding[1], -o.padding[0], -o.padding[0]});
}

namespace {

void pixel_shuffle_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return pixel_shuffle(x[0], 2); };
  s.call({s.randn({2, 8, 3, 2})}, f);
  s.call({s.randn({4, 1, 2})}, f);
  s.error_call({s.randn({2, 6, 3, 2})}, f, "multiple of the factor 2 squared");
}
void pixel_unshuffle_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return pixel_unshuffle(x[0], 2); };
  s.call({s.randn({2, 2, 4, 6})}, f);
  s.error_call({s.randn({2, 3, 2})}, f, "must be multiples of the factor 2");
}
void interpolate_samples(Samples& s) {
  s.call({s.randn({1, 2, 3, 4})}, [](const Tensors& x) { return interpolate(x[0], {.scale_factor = {2}}); });
  s.call({s.randn({1, 4, 1, 3, 2})}, [](const Tensors& x) {
    return interpolate(x[0], {.size = {4, 6, 2}, .mode = "nearest-exact"});
  });
  s.call({s.randn({2, 3, 2, 3})}, [](const Tensors& x) {
    return interpolate(channels_last(x[0]), {.scale_factor = {4, 2}});
  });
  s.call({s.randn({1, 2, 3, 4})}, [](const Tensors& x) { return interpolate(x[0], {.scale_factor = {3}}); });
  s.call({s.randn({2, 3, 2, 4})}, [](const Tensors& x) {
    return interpolate(channels_last(x[0]), {.size = {3, 5}, .mode = "bilinear"});
  });
  s.call({s.randn({2, 2, 5})},
         [](const Tensors& x) { return interpolate(x[0], {.size = {3}, .mode = "nearest-exact"}); });
  s.call({s.randn({2, 2, 5})}, [](const Tensors& x) { return interpolate(x[0], {.size = {8}, .mode = "linear"}); });
  s.call({s.randn({1, 2, 3, 4})}, [](const Tensors& x) {
    return interpolate(x[0], {.size = {5, 3}, .mode = "bilinear", .align_corners = true});
  });
  s.call({s.randn({1, 1, 4, 4})},
         [](const Tensors& x) { return interpolate(x[0], {.scale_factor = {1.5}, .mode = "bicubic"}); });
  s.call({s.randn({1, 1, 2, 3, 2})}, [](const Tensors& x) {
    return interpolate(x[0], {.scale_factor = {2, 1, 1.5}, .mode = "trilinear"});
  });
  s.call({s.randn({1, 2, 3, 4})}, [](const Tensors& x) { return interpolate(x[0], {.size = {2, 5}, .mode = "area"}); });
  s.call({s.randn({1, 2, 4, 3, 2})}, [](const Tensors& x) {
    return interpolate(x[0], {.size = {2, 2, 2}, .mode = "area"});
  });
  s.call({s.randn({1, 1, 7, 5})}, [](const Tensors& x) {
    return interpolate(x[0], {.size = {3, 4}, .mode = "bilinear", .antialias = true});
  });
  s.call({s.randn({1, 1, 6, 5})}, [](const Tensors& x) {
    return interpolate(x[0], {.size = {2, 7}, .mode = "bicubic", .antialias = true});
  });
  s.error_call(
      {s.randn({1, 2, 3})}, [](const Tensors& x) { return interpolate(x[0], {.size = {5}, .antialias = true}); },
      "antialias is for modes bilinear");
  s.error_call(
      {s.randn({1, 2, 3})}, [](const Tensors& x) { return interpolate(x[0], {.size = {5}, .mode = "bilinear"}); },
      "is for 2 dimensions");
  s.error_call(
      {s.randn({1, 2, 3})}, [](const Tensors& x) { return interpolate(x[0], {}); }, "give either size or scale_factor");
  s.error_call(
      {s.randn({1, 2, 3})}, [](const Tensors& x) { return interpolate(x[0], {.size = {0}}); },
      "sizes must be positive");
  s.error_call(
      {s.randn({1, 2, 3})}, [](const Tensors& x) { return interpolate(x[0], {.size = {4}, .mode = "best"}); },
      "mode must be");
}
void unfold_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return unfold(x[0], {2, 3}, {.padding = {1, 0}, .stride = {2, 1}}); };
  s.call({s.randn({2, 3, 4, 5})}, f);
  s.call({s.randn({1, 1, 5, 5})}, [](const Tensors& x) { return unfold(x[0], {2, 2}, {.dilation = {2, 3}}); });
  s.call({s.randn({2, 4, 5})}, f);
  s.error_call({s.randn({4, 5})}, f, "x must be [N, C, H, W]");
  s.error_call({s.randn({1, 1, 4, 2})}, f, "does not fit into 2");
}
void fold_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return fold(x[0], {4, 5}, {2, 3}, {.padding = {1, 0}, .stride = {2, 1}}); };
  s.call({s.randn({2, 12, 9})}, f);
  s.call({s.randn({12, 9})}, f);
  s.error_call({s.randn({2, 12, 8})}, f, "must have 9 places");
  s.error_call({s.randn({2, 11, 9})}, f, "no multiple of the kernel's area 6");
}
MANTISSA_COMPOSITE(pixel_shuffle, pixel_shuffle_samples)
MANTISSA_COMPOSITE(pixel_unshuffle, pixel_unshuffle_samples)
MANTISSA_COMPOSITE(interpolate, interpolate_samples, .autocast = CastPolicy::f32, .has_policy = true)
MANTISSA_COMPOSITE(unfold, unfold_samples)
MANTISSA_COMPOSITE(fold, fold_samples)

}  // namespace
}  // namespace mantissa
