// 1-d and 2-d pooling composed of 2-d and 3-d pooling, unpooling, and p-norm pooling. Read first: ops/pool.cpp,
// ops/pool_volume.cpp.
#include <cmath>

#include "ops/compose.h"
#include "ops/length.h"
#include "ops/pool_line.h"

namespace mantissa {
namespace {

ValuesIndices without_dim_2(const ValuesIndices& y) { return {squeeze(y.values, 2), squeeze(y.indices, 2)}; }

// Scatters values to their indices in images of `spatial` sizes, 0 elsewhere.
template <std::size_t n>
Tensor unpooled(const char* name, const Tensor& x, const Tensor& indices, std::array<int, n> kernel,
                std::array<int, n> stride, std::array<int, n> padding, const Dims& output) {
  constexpr int rank = static_cast<int>(n) + 2;
  if (has_no_batch(x, static_cast<int>(n)) && indices.dim() == x.dim()) {
    return without_batch(unpooled<n>(name, as_batch(x), as_batch(indices), kernel, stride, padding, output));
  }
  check(x.dim() == rank, name, ": x must have ", rank, " dimensions, [N, C, ...], or one less, [C, ...], got ", x);
  check(indices.sizes() == x.sizes() && indices.dtype() == i64, name, ": indices must be i64 and of x's sizes, got ",
        indices, " for x ", x);
  check(output.empty() || output.rank() == static_cast<int>(n), name, ": output_size needs ", n, " sizes, got ",
        output);
  Dims sizes{x.size(0), x.size(1)}, flat{x.size(0), x.size(1), 1}, flat_in{x.size(0), x.size(1), 1};
  for (std::size_t d = 0; d < n; ++d) {
    const int at = static_cast<int>(d);
    const std::int64_t step = stride[d] == 0 ? kernel[d] : stride[d], border = padding[d];
    check(kernel[d] >= 1 && step >= 1 && border >= 0, name,
          ": kernel and stride must be at least 1 and padding at least 0, got ", kernel[d], ", ", step, " and ",
          border);
    const std::int64_t size = output.empty() ? (x.size(at + 2) - 1) * step - 2 * border + kernel[d] : output[at];
    check(size > 0, name, ": the result would have size ", size, " in dimension ", at + 2, " for x ", x);
    sizes.push_back(size);
    flat_in[2] *= x.size(at + 2);
  }
  const Tensor zeroed = zeros(sizes, {.dtype = x.dtype(), .device = x.device()});  // throws if they are too large
  for (int d = 2; d < sizes.rank(); ++d) flat[2] *= sizes[d];
  const Tensor zero = reshape(zeroed, flat);
  return reshape(scatter(zero, 2, reshape(indices, flat_in), reshape(x, flat_in)), sizes);
}

// (sum of x^p)^(1/p), with the sum as in PyTorch: the average times the kernel size.
template <int n> struct LpPool {
  static constexpr auto name = n == 1 ? "lp_pool1d" : n == 2 ? "lp_pool2d" : "lp_pool3d";
  static constexpr const char* args[] = {"x"};
  static constexpr bool differentiable = true;
  double p = 2;
  std::array<int, n> kernel{}, stride{};
  bool ceil_mode = false;

  static Tensor compose(const LpPool& op, const Tensor& x) {
    check(op.p != 0, "norm_type must not be 0");
    double area = 1;
    for (int k : op.kernel) area *= k;
    const Tensor total = op.average(pow(x, op.p)) * area, zero = eq(total, Tensor(0.0));
    return where(zero, Tensor(0.0), pow(where(zero, Tensor(1.0), total), 1 / op.p));  // no gradient at 0
  }
  Tensor average(const Tensor& x) const {
    if constexpr (n == 1) return avg_pool1d(x, kernel[0], {.stride = stride[0], .ceil_mode = ceil_mode});
    else if constexpr (n == 2) return avg_pool2d(x, kernel, {.stride = stride, .ceil_mode = ceil_mode});
    else return avg_pool3d(x, kernel, {.stride = stride, .ceil_mode = ceil_mode});
  }
  static void samples(Samples& s) {
    Dims sizes{2, 2}, few;
    LpPool op{3, {}, {}, true};
    for (int d = 0; d < n; ++d) {
      sizes.push_back(4 + d);
      few.push_back(4);
      op.kernel[static_cast<std::size_t>(d)] = 2 + d % 2;
    }
    composed(s, {s.uniform(sizes, 0.2, 2)}, op);
    composed(s, {s.randn(sizes)}, LpPool{2, op.kernel, op.kernel, false});
    composed_error(s, {s.randn(few)}, op, "x must be [N, C, ");
    composed_error(s, {s.randn(sizes)}, LpPool{0, op.kernel, {}, false}, "norm_type must not be 0");
  }
};

}  // namespace

MANTISSA_OP(LpPool<1>)
MANTISSA_OP(LpPool<2>)
MANTISSA_OP(LpPool<3>)

ValuesIndices max_pool1d_with_indices(const Tensor& x, int kernel, Pool1dOptions o) {
  if (has_no_batch(x, 1)) return without_batch(max_pool1d_with_indices(as_batch(x), kernel, o));
  check_line("max_pool1d", x);
  return without_dim_2(max_pool2d_with_indices(unsqueeze(x, 2), {1, kernel}, as_image(o)));
}
Tensor max_pool1d(const Tensor& x, int kernel, Pool1dOptions o) { return max_pool1d_with_indices(x, kernel, o).values; }
Tensor avg_pool1d(const Tensor& x, int kernel, Pool1dOptions o) {
  if (has_no_batch(x, 1)) return without_batch(avg_pool1d(as_batch(x), kernel, o));
  check_line("avg_pool1d", x);
  return squeeze(avg_pool2d(unsqueeze(x, 2), {1, kernel}, as_image(o)), 2);
}
Tensor adaptive_avg_pool1d(const Tensor& x, int output) {
  if (has_no_batch(x, 1)) return without_batch(adaptive_avg_pool1d(as_batch(x), output));
  check_line("adaptive_avg_pool1d", x);
  return squeeze(adaptive_avg_pool2d(unsqueeze(x, 2), {1, output}), 2);
}
ValuesIndices adaptive_max_pool2d_with_indices(const Tensor& x, PerDim<2> output) {
  if (has_no_batch(x, 2)) return without_batch(adaptive_max_pool2d_with_indices(as_batch(x), output));
  check_plane("adaptive_max_pool2d", x);
  return without_dim_2(adaptive_max_pool3d_with_indices(unsqueeze(x, 2), {1, output[0], output[1]}));
}
ValuesIndices adaptive_max_pool1d_with_indices(const Tensor& x, int output) {
  if (has_no_batch(x, 1)) return without_batch(adaptive_max_pool1d_with_indices(as_batch(x), output));
  check_line("adaptive_max_pool1d", x);
  return without_dim_2(adaptive_max_pool2d_with_indices(unsqueeze(x, 2), {1, output}));
}
// If all windows have the same size, uses max_pool2d, which is faster and keeps the layout.
Tensor adaptive_max_pool2d(const Tensor& x, PerDim<2> output) {
  if (has_no_batch(x, 2)) return without_batch(adaptive_max_pool2d(as_batch(x), output));
  check_plane("adaptive_max_pool2d", x);
  PerDim<2> kernel = 0;
  for (int d = 0; d < 2; ++d) {
    const auto at = static_cast<std::size_t>(d);
    const std::int64_t in = x.size(d + 2);
    if (output[at] < 1 || in < 1 || in % output[at] != 0 || in > INT32_MAX)
      return adaptive_max_pool2d_with_indices(x, output).values;
    kernel[at] = static_cast<int>(in) / output[at];
  }
  return max_pool2d(x, kernel);
}
Tensor adaptive_max_pool1d(const Tensor& x, int output) {
  if (has_no_batch(x, 1)) return without_batch(adaptive_max_pool1d(as_batch(x), output));
  check_line("adaptive_max_pool1d", x);
  return squeeze(adaptive_max_pool2d(unsqueeze(x, 2), {1, output}), 2);
}

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, int kernel, Pool1dOptions o, const Dims& output_size) {
  return unpooled<1>("max_unpool1d", x, indices, {kernel}, {o.stride}, {o.padding}, output_size);
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, PerDim<2> kernel, Pool2dOptions o,
                    const Dims& output_size) {
  return unpooled<2>("max_unpool2d", x, indices, kernel, o.stride, o.padding, output_size);
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, PerDim<3> kernel, Pool3dOptions o,
                    const Dims& output_size) {
  return unpooled<3>("max_unpool3d", x, indices, kernel, o.stride, o.padding, output_size);
}
Tensor lp_pool1d(const Tensor& x, double p, int kernel, int stride, bool ceil_mode) {
  return apply_composed(LpPool<1>{p, {kernel}, {stride}, ceil_mode}, x);
}
Tensor lp_pool2d(const Tensor& x, double p, PerDim<2> kernel, PerDim<2> stride, bool ceil_mode) {
  return apply_composed(LpPool<2>{p, kernel, stride, ceil_mode}, x);
}
Tensor lp_pool3d(const Tensor& x, double p, PerDim<3> kernel, PerDim<3> stride, bool ceil_mode) {
  return apply_composed(LpPool<3>{p, kernel, stride, ceil_mode}, x);
}

namespace {

void max_pool1d_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return max_pool1d(x[0], 3, {.stride = 2, .padding = 1}); };
  s.call({s.distinct({2, 3, 7})}, f);
  s.call({s.distinct({2, 3, 8})}, [](const Tensors& x) { return max_pool1d(x[0], 2); });
  s.call({s.distinct({3, 7})}, f);
  s.error_call({s.randn({7})}, f, "x must be [N, C, L]");
}
void max_pool1d_with_indices_samples(Samples& s) {
  s.call({s.distinct({2, 3, 9})}, [](const Tensors& x) {
    return max_pool1d_with_indices(x[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true, .dilation = 2});
  });
}
void max_pool2d_with_indices_samples(Samples& s) {
  const auto dilated = [](const Tensors& x) {
    return max_pool2d_with_indices(x[0], {2, 3}, {.stride = {1, 2}, .padding = {0, 1}, .dilation = {2, 1}});
  };
  s.call({s.distinct({2, 2, 5, 6})}, [](const Tensors& x) {
    return max_pool2d_with_indices(x[0], {2, 3}, {.stride = {2, 1}});
  });
  s.call({s.distinct({2, 2, 5, 6})}, dilated);
  s.error_call({s.randn({5, 6})}, dilated, "x must be [N, C, H, W]");
}
void max_pool3d_with_indices_samples(Samples& s) {
  s.call({s.distinct({1, 2, 3, 4, 4})}, [](const Tensors& x) {
    return max_pool3d_with_indices(x[0], {2, 2, 2}, {.stride = {1, 2, 1}});
  });
}
void avg_pool1d_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    return avg_pool1d(x[0], 3, {.stride = 2, .padding = 1, .count_include_pad = false});
  };
  s.call({s.randn({2, 3, 7})}, f);
  s.call({s.distinct({3, 7})}, f);
  s.error_call({s.randn({7})}, f, "x must be [N, C, L]");
}
void adaptive_avg_pool1d_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return adaptive_avg_pool1d(x[0], 3); };
  s.call({s.randn({2, 3, 7})}, f);
  s.call({s.distinct({3, 7})}, f);
  s.error_call({s.randn({7})}, f, "x must be [N, C, L]");
}
void adaptive_max_pool1d_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return adaptive_max_pool1d(x[0], 3); };
  s.call({s.distinct({2, 3, 7})}, f);
  s.call({s.distinct({3, 7})}, f);
  s.error_call({s.randn({7})}, f, "x must be [N, C, L]");
}
void adaptive_max_pool2d_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return adaptive_max_pool2d(x[0], {2, 3}); };
  s.call({s.distinct({2, 3, 5, 7})}, f);
  s.call({s.distinct({2, 5, 7})}, f);
  s.error_call({s.randn({7, 7})}, f, "x must be [N, C, H, W]");
}
void adaptive_max_pool1d_with_indices_samples(Samples& s) {
  s.call({s.distinct({2, 3, 7})}, [](const Tensors& x) { return adaptive_max_pool1d_with_indices(x[0], 4); });
}
void adaptive_max_pool2d_with_indices_samples(Samples& s) {
  s.call({s.distinct({2, 2, 5, 4})}, [](const Tensors& x) { return adaptive_max_pool2d_with_indices(x[0], {3, 2}); });
}
void adaptive_max_pool3d_with_indices_samples(Samples& s) {
  s.call({s.distinct({1, 2, 3, 4, 4})}, [](const Tensors& x) {
    return adaptive_max_pool3d_with_indices(x[0], {2, 1, 3});
  });
}
// A distinct index of the flattened image for every element.
void max_unpool1d_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return max_unpool1d(x[0], x[1], 2); };
  s.call({s.randn({1, 2, 3}), reshape(tensor({0, 3, 4, 1, 2, 5}), {1, 2, 3})}, f);
  s.error_call({s.randn({1, 2, 3}), s.integers({1, 2, 2}, 0, 3)}, f, "indices must be i64 and of x's sizes");
  s.error_call({s.randn({1, 2, 3}), s.integers({1, 2, 3}, 6, 7)}, f, "index 6 is out of range");
}
void max_unpool2d_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return max_unpool2d(x[0], x[1], {2, 2}, {}, {5, 4}); };
  s.call({s.randn({1, 1, 2, 2}), reshape(tensor({1, 3, 16, 10}), {1, 1, 2, 2})}, f);
  s.call({s.randn({1, 2, 2}), reshape(tensor({1, 3, 16, 10}), {1, 2, 2})}, f);
  s.error_call({s.randn({2, 3}), s.integers({2, 3}, 0, 3)}, f, "x must have 4 dimensions");
}
void max_unpool3d_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return max_unpool3d(x[0], x[1], {1, 2, 2}); };
  s.call({s.randn({1, 1, 2, 1, 2}), reshape(tensor({1, 3, 12, 15}), {1, 1, 2, 1, 2})}, f);
  s.error_call({s.randn({1, 2, 3}), s.integers({1, 2, 3}, 0, 3)}, f, "x must have 5 dimensions");
}
MANTISSA_COMPOSITE(max_pool1d, max_pool1d_samples)
MANTISSA_COMPOSITE(max_pool1d_with_indices, max_pool1d_with_indices_samples)
MANTISSA_COMPOSITE(max_pool2d_with_indices, max_pool2d_with_indices_samples)
MANTISSA_COMPOSITE(max_pool3d_with_indices, max_pool3d_with_indices_samples)
MANTISSA_COMPOSITE(avg_pool1d, avg_pool1d_samples)
MANTISSA_COMPOSITE(adaptive_avg_pool1d, adaptive_avg_pool1d_samples)
MANTISSA_COMPOSITE(adaptive_max_pool1d, adaptive_max_pool1d_samples)
MANTISSA_COMPOSITE(adaptive_max_pool2d, adaptive_max_pool2d_samples)
MANTISSA_COMPOSITE(adaptive_max_pool1d_with_indices, adaptive_max_pool1d_with_indices_samples)
MANTISSA_COMPOSITE(adaptive_max_pool2d_with_indices, adaptive_max_pool2d_with_indices_samples)
MANTISSA_COMPOSITE(adaptive_max_pool3d_with_indices, adaptive_max_pool3d_with_indices_samples)
MANTISSA_COMPOSITE(max_unpool1d, max_unpool1d_samples)
MANTISSA_COMPOSITE(max_unpool2d, max_unpool2d_samples)
MANTISSA_COMPOSITE(max_unpool3d, max_unpool3d_samples)

}  // namespace
}  // namespace mantissa
