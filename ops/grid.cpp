// grid_sample and affine_grid (Jaderberg et al., 2015): an image sampled at points that a network may have computed.
// Kernels: core/grid_sample.h. Their reference is composed of gathers, one per neighbour of a point, whose weights
// carry the gradient to the grid. Positions, borders and weights follow PyTorch.
#include <cmath>

#include "autograd/backward.h"
#include "core/grid_sample.h"
#include "ops/compose.h"
#include "ops/device_table.h"

namespace mantissa {

MANTISSA_KERNEL(fill, const View& y, double value)

namespace {

struct GridSample {
  static constexpr auto name = "grid_sample";
  static constexpr const char* args[] = {"x", "grid"};
  static constexpr auto autocast = CastPolicy::promote;
  static constexpr bool differentiable = true;
  std::string mode = "bilinear", padding_mode = "zeros";
  bool align_corners = false;

  int taps() const { return mode == "nearest" ? 1 : mode == "bilinear" ? 2 : 4; }  // along each dimension
  // Maps [-1, 1] to positions in a dimension of n elements.
  Tensor position(const Tensor& at, std::int64_t n) const {
    const auto size = static_cast<double>(n);
    return align_corners ? (at + 1.0) * ((size - 1) / 2) : (at + 1.0) * (size / 2) - 0.5;
  }
  // Moves positions inside the image, for all padding modes but zeros.
  Tensor inside(const Tensor& at, std::int64_t n) const {
    const auto last = static_cast<double>(n - 1);
    if (padding_mode == "zeros") return at;
    const Tensor p = padding_mode == "reflection" ? reflected(at, n) : at;
    // positions clamped to the border, or on it, get no gradient
    return where(logical_and(gt(p, Tensor(0.0)), lt(p, Tensor(last))), p, clamp(p.detach(), 0, last));
  }
  Tensor reflected(const Tensor& at, std::int64_t n) const {
    const double low = align_corners ? 0 : -0.5,
                 span = align_corners ? static_cast<double>(n - 1) : static_cast<double>(n);
    if (span == 0) return at * 0.0;
    const Tensor far = abs(at - low), turns = floor(far / Tensor(span)), rest = far - turns * span;
    return where(eq(remainder(turns, Tensor(2.0)), Tensor(0.0)), rest, span - rest) + low;
  }
  // Keys, 1981, a = -0.75: the weight of a neighbour at this distance.
  static Tensor cubic_weight(const Tensor& distance) {
    constexpr double a = -0.75;
    const Tensor t = abs(distance);
    const Tensor near = ((a + 2) * t - (a + 3)) * t * t + 1.0, far = (((t - 5.0) * t + 8.0) * t - 4.0) * a;
    return where(le(t, Tensor(1.0)), near, far);
  }

  static Tensor compose(const GridSample& op, const Tensor& x, const Tensor& grid);
  static Tensor by_gathers(const GridSample& op, const Tensor& x, const Tensor& grid) {
    const int n = x.dim() - 2;
    const std::int64_t batch = x.size(0), channels = x.size(1),
                       points = grid.numel() / std::max<std::int64_t>(batch * n, 1);
    const Tensor places = reshape(grid, {batch, 1, points, n});
    std::vector<Tensor> at;  // a position per dimension of x, [batch, 1, points]; grids list width first
    for (int d = 0; d < n; ++d) {
      const Tensor p = op.position(select(places, -1, n - 1 - d), x.size(d + 2));
      at.push_back(op.mode == "bicubic" ? p : op.inside(p, x.size(d + 2)));
    }
    Dims flat{batch, channels, 1}, result{batch, channels};
    for (int d = 0; d < n; ++d) flat[2] *= x.size(d + 2), result.push_back(grid.size(d + 1));
    const Tensor pixels = reshape(x, flat);
    const int taps = op.taps();
    int neighbours = 1;
    for (int d = 0; d < n; ++d) neighbours *= taps;
    Tensor y;
    for (int k = 0; k < neighbours; ++k) {
      const Tensor part = op.neighbour(x, pixels, at, k, taps);
      y = k == 0 ? part : y + part;
    }
    return reshape(y, result);
  }
  // The contribution of neighbour k of every point.
  Tensor neighbour(const Tensor& x, const Tensor& pixels, const std::vector<Tensor>& at, int k, int taps) const {
    Tensor index, weight, within;
    for (std::size_t d = 0; d < at.size(); ++d, k /= taps) {
      const std::int64_t n = x.size(static_cast<int>(d) + 2);
      const Tensor p = at[d].detach();
      Tensor tap = taps == 1 ? round(p) : floor(p) + static_cast<double>(k % taps - (taps == 4 ? 1 : 0));
      Tensor w = taps == 1       ? at[d] * 0.0 + 1.0
                 : taps == 4     ? cubic_weight(at[d] - tap)
                 : k % taps == 0 ? 1.0 - (at[d] - tap)
                                 : 1.0 + (at[d] - tap);
      if (taps == 4) tap = round(inside(tap, n));
      const auto last = static_cast<double>(n - 1);
      const Tensor inside_here = logical_and(ge(tap, Tensor(0.0)), le(tap, Tensor(last)));
      w = where(inside_here, w, Tensor(0.0));
      within = within.defined() ? logical_and(within, inside_here) : inside_here;
      const Tensor i = cast(clamp(where(isfinite(tap), tap, Tensor(0.0)), 0, last), i64);
      index = index.defined() ? index * scalar(static_cast<double>(n), {.dtype = i64, .device = x.device()}) + i : i;
      weight = weight.defined() ? weight * w : w;
    }
    const Tensor pixel = gather(pixels, 2, expand(index, {pixels.size(0), pixels.size(1), index.size(2)}));
    // A neighbour outside contributes 0, not 0 times a border element, which may be infinite.
    return where(within, pixel, Tensor(0.0)) * weight;
  }
  void check_inputs(const Tensor& x, const Tensor& grid) const {
    const int n = x.dim() - 2;
    check(n == 2 || n == 3, "x must be [N, C, H, W] or [N, C, D, H, W]");
    check(x.is_floating() && grid.is_floating(), "needs floating dtypes; convert with to(f32)");
    check(grid.dim() == x.dim() && grid.size(0) == x.size(0) && grid.size(-1) == n, "grid must be [", x.size(0),
          ", ...,  ", n, "] with ", x.dim(), " dimensions");
    for (int d = 0; d < n; ++d) check(x.size(d + 2) > 0, "x must not be empty");
    check(mode == "bilinear" || mode == "nearest" || mode == "bicubic",
          "mode must be bilinear, nearest or bicubic, got \"", mode, "\"");
    check(mode != "bicubic" || n == 2, "mode bicubic is for [N, C, H, W]");
    check(padding_mode == "zeros" || padding_mode == "border" || padding_mode == "reflection",
          "padding_mode must be zeros, border or reflection, got \"", padding_mode, "\"");
  }
  static void samples(Samples& s) {
    const auto points = [&](const Dims& sizes) { return s.uniform(sizes, -1.3, 1.3); };
    for (const char* padding : {"zeros", "border", "reflection"}) {
      composed(s, {s.randn({2, 2, 3, 4}), points({2, 2, 3, 2})}, GridSample{"bilinear", padding});
    }
    composed(s, {s.randn({1, 2, 3, 4}), points({1, 2, 2, 2})}, GridSample{"bicubic", "zeros", true});
    composed(s, {s.randn({1, 1, 4, 4}), points({1, 2, 2, 2})}, GridSample{"bicubic", "border"});
    composed(s, {s.randn({2, 3, 5, 4}), points({2, 3, 7, 2})}, GridSample{"bicubic", "reflection", true});
    composed(s, {s.randn({1, 2, 3, 4}), s.uniform({1, 2, 3, 2}, -4, 4)}, GridSample{"bicubic", "reflection"});
    composed(s, {s.randn({1, 1, 2, 3, 3}), points({1, 1, 2, 2, 3})}, GridSample{"bilinear", "zeros", true});
    composed(s, {s.randn({1, 2, 3, 4}), points({1, 2, 2, 2})}, GridSample{"nearest"}).exact_only = true;
    composed_error(s, {s.randn({1, 2, 3}), points({1, 2, 2})}, GridSample{}, "x must be [N, C, H, W]");
    composed_error(s, {s.randn({1, 2, 3, 3}), points({1, 2, 2, 3})}, GridSample{}, "grid must be");
    composed_error(s, {s.randn({1, 2, 3, 3}), points({1, 2, 2, 2})}, GridSample{"area"},
                   "mode must be bilinear, nearest or bicubic");
    composed_error(s, {s.randn({1, 2, 3, 3}), points({1, 2, 2, 2})}, GridSample{"nearest", "wrap"},
                   "padding_mode must be zeros");
  }
};
MANTISSA_OP(GridSample)

// The three kernels as operators; their reference is the composition of gathers.
struct ReadGrid {
  GridSample op;
  GridReading how() const {
    using Padding = GridReading::Padding;
    return {op.padding_mode == "zeros"    ? Padding::zeros
            : op.padding_mode == "border" ? Padding::border
                                          : Padding::reflection,
            op.taps(), op.align_corners};
  }
  static bool fits(const Tensor& x, const Tensor& grid) {
    return x.dtype() == grid.dtype() && !is_half(x.dtype()) && x.numel() > 0 &&
           x.numel() / (x.size(0) * x.size(1)) < INT32_MAX;
  }
};
// The gradient of input i of the composition. Inputs get new nodes, because the grid may be computed from x.
Tensor gathers_gradient(const GridSample& op, const Tensor& g, Tensor x, Tensor grid, bool of_grid) {
  Tensor& input = of_grid ? grid : x;
  input = input.requires_grad() ? input * 1.0 : input.detach().requires_grad_();
  const Tensor roots[] = {GridSample::by_gathers(op, x, grid)}, inputs[] = {input}, gradients[] = {g};
  return grad(roots, inputs, gradients, {.create_graph = true})[0];
}
struct ReadGridInputGradient : ReadGrid {
  static constexpr auto name = "grid_sample_input_gradient";
  static constexpr const char* args[] = {"gradient", "grid"};
  Dims x_sizes;
  Spec infer(const Tensor& g, const Tensor&) const { return like(g, x_sizes); }
  void run(const View& dx, const View& g, const View& grid) const {
    kernels::read_grid_input_gradient(dx.device, dx, g, grid, how());
  }
  static Tensor reference(const ReadGridInputGradient& r, const Tensor& g, const Tensor& grid) {
    return gathers_gradient(r.op, g, zeros(r.x_sizes, {.dtype = g.dtype(), .device = g.device()}), grid, false);
  }
};
struct ReadGridGridGradient : ReadGrid {
  static constexpr auto name = "grid_sample_grid_gradient";
  static constexpr const char* args[] = {"gradient", "x", "grid"};
  Spec infer(const Tensor&, const Tensor&, const Tensor& grid) const { return like(grid); }
  void run(const View& dgrid, const View& g, const View& x, const View& grid) const {
    if (how().taps == 1) kernels::fill(dgrid.device, dgrid, 0.0);
    else kernels::read_grid_grid_gradient(dgrid.device, dgrid, g, x, grid, how());
  }
  static Tensor reference(const ReadGridGridGradient& r, const Tensor& g, const Tensor& x, const Tensor& grid) {
    return gathers_gradient(r.op, g, x, grid, true);
  }
};
struct ReadGridForward : ReadGrid {
  static constexpr auto name = "grid_sample_forward";
  static constexpr const char* args[] = {"x", "grid"};
  Spec infer(const Tensor& x, const Tensor& grid) const {
    Dims sizes{x.size(0), x.size(1)};
    for (int d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.size(d));
    return like(x, sizes);
  }
  void run(const View& y, const View& x, const View& grid) const { kernels::read_grid(y.device, y, x, grid, how()); }
  static constexpr auto vjp() {
    return rules(
        [](const ReadGridForward& r, Grad g, Shape<0> x, In<1> grid) {
          return apply(ReadGridInputGradient{r, x.sizes}, contiguous(g), grid);
        },
        [](const ReadGridForward& r, Grad g, In<0> x, In<1> grid) {
          return apply(ReadGridGridGradient{r}, contiguous(g), x, grid);
        });
  }
  static Tensor reference(const ReadGridForward& r, const Tensor& x, const Tensor& grid) {
    return GridSample::by_gathers(r.op, x, grid);
  }
};
Tensor GridSample::compose(const GridSample& op, const Tensor& x, const Tensor& grid) {
  op.check_inputs(x, grid);
  if (!ReadGrid::fits(x, grid)) return by_gathers(op, x, grid);
  return apply(ReadGridForward{op}, contiguous(x), contiguous(grid));
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions o) {
  return apply_composed(GridSample{std::string(o.mode), std::string(o.padding_mode), o.align_corners}, x, grid);
}
Tensor affine_grid(const Tensor& theta, const Dims& sizes, bool align_corners) {
  const int n = sizes.rank() - 2;
  check(n == 2 || n == 3, "affine_grid: sizes must be [N, C, H, W] or [N, C, D, H, W], got ", sizes);
  check(theta.is_floating() && theta.sizes() == Dims{sizes[0], n, n + 1}, "affine_grid: theta must be floating ",
        Dims{sizes[0], n, n + 1}, ", got ", theta);
  Dims spatial;
  for (int d = 0; d < n; ++d) {
    check(sizes[d + 2] > 0, "affine_grid: sizes ", sizes, " must be positive");
    spatial.push_back(sizes[d + 2]);
  }
  Dims each = spatial;
  each.push_back(1);
  std::vector<Tensor> columns;
  const TensorOptions o{.dtype = theta.dtype(), .device = theta.device()};
  for (int d = n - 1; d >= 0; --d) {  // width first
    const auto size = static_cast<double>(spatial[d]);
    Dims line = Dims::filled(n + 1, 1);
    line[d] = spatial[d];
    Tensor at = spatial[d] > 1 ? linspace(-1, 1, spatial[d], {.dtype = f64}) : zeros({1}, {.dtype = f64});
    if (!align_corners) at = at * ((size - 1) / size);
    columns.push_back(expand(device_table(at.to_vector<double>(), line, theta.dtype(), theta.device()), each));
  }
  columns.push_back(ones(each, o));
  const Tensor base = reshape(cat(columns, -1), {1, numel_of(spatial), n + 1});
  Dims result{sizes[0]};
  for (std::int64_t size : spatial) result.push_back(size);
  result.push_back(n);
  return reshape(matmul(base, transpose(theta)), result);
}

namespace {
void affine_grid_samples(Samples& s) {
  const auto call = [](std::vector<std::int64_t> sizes, bool align) {
    return [=](const Tensors& x) { return affine_grid(x[0], sizes, align); };
  };
  s.call({s.randn({2, 2, 3})}, call({2, 3, 4, 2}, false));
  s.call({s.randn({1, 3, 4})}, call({1, 1, 2, 3, 1}, true));
  s.error_call({s.randn({2, 3, 3})}, call({2, 3, 4, 2}, false), "theta must be floating [2, 2, 3]");
  s.error_call({s.randn({2, 2, 3})}, call({2, 3, 4}, false), "sizes must be [N, C, H, W]");
}
MANTISSA_COMPOSITE(affine_grid, affine_grid_samples)
}  // namespace
}  // namespace mantissa
