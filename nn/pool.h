// Pooling layers: nn::MaxPool2d{2}, nn::AvgPool2d{3, {.stride = 2, .padding = 1}}. x [N, C, L], [N, C, H, W] or [N, C,
// D, H, W]. As their torch.nn namesakes; options are the operators' (core/ops.h), the stride defaults to the kernel
// size. Instead of PyTorch's return_indices, call with_indices(x). The multi-dimensional ones have constructors because
// in an aggregate ({3, 5}) would mean a kernel of 3 and a stride of 5.
#pragma once

#include <array>
#include <optional>

#include "core/ops.h"
#include "core/ops_special.h"
#include "core/per_dim.h"

namespace mantissa::nn {

namespace detail {
template <std::size_t n>
void check_fractions(const char* name, bool size, const std::optional<std::array<double, n>>& ratio) {
  check(size != ratio.has_value(), name, ": give either output_size or output_ratio");
  if (!ratio) return;
  for (double r : *ratio) check(r > 0 && r < 1, name, ": output_ratio ", r, " must lie between 0 and 1");
}
template <std::size_t n, class Size>
std::array<int, n> fractional_size(const Tensor& x, const Size& size,
                                   const std::optional<std::array<double, n>>& ratio) {
  if (size) return *size;
  std::array<int, n> output{};
  for (std::size_t d = 0; d < n; ++d) {
    const int at = static_cast<int>(d) - static_cast<int>(n);
    if (x.dim() >= static_cast<int>(n)) output[d] = static_cast<int>(static_cast<double>(x.size(at)) * (*ratio)[d]);
  }
  return output;
}
}  // namespace detail

struct MaxPool1d {
  int kernel;
  Pool1dOptions options = {};
  Tensor operator()(const Tensor& x) const { return max_pool1d(x, kernel, options); }
  ValuesIndices with_indices(const Tensor& x) const { return max_pool1d_with_indices(x, kernel, options); }
};
struct MaxPool2d {
  MaxPool2d(PerDim<2> kernel, const Pool2dOptions& options = {}) : kernel(kernel), options(options) {}
  Tensor operator()(const Tensor& x) const { return max_pool2d(x, kernel, options); }
  ValuesIndices with_indices(const Tensor& x) const { return max_pool2d_with_indices(x, kernel, options); }
  PerDim<2> kernel;
  Pool2dOptions options;
};
struct MaxPool3d {
  MaxPool3d(PerDim<3> kernel, const Pool3dOptions& options = {}) : kernel(kernel), options(options) {}
  Tensor operator()(const Tensor& x) const { return max_pool3d(x, kernel, options); }
  ValuesIndices with_indices(const Tensor& x) const { return max_pool3d_with_indices(x, kernel, options); }
  PerDim<3> kernel;
  Pool3dOptions options;
};

struct AvgPool1d {
  int kernel;
  Pool1dOptions options = {};
  Tensor operator()(const Tensor& x) const { return avg_pool1d(x, kernel, options); }
};
struct AvgPool2d {
  AvgPool2d(PerDim<2> kernel, const Pool2dOptions& options = {}) : kernel(kernel), options(options) {}
  Tensor operator()(const Tensor& x) const { return avg_pool2d(x, kernel, options); }
  PerDim<2> kernel;
  Pool2dOptions options;
};
struct AvgPool3d {
  AvgPool3d(PerDim<3> kernel, const Pool3dOptions& options = {}) : kernel(kernel), options(options) {}
  Tensor operator()(const Tensor& x) const { return avg_pool3d(x, kernel, options); }
  PerDim<3> kernel;
  Pool3dOptions options;
};

// Given by output size instead of kernel; 1 is global pooling.
struct AdaptiveAvgPool1d {
  int output = 1;
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool1d(x, output); }
};
struct AdaptiveAvgPool2d {
  PerDim<2> output = 1;
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool2d(x, output); }
};
struct AdaptiveAvgPool3d {
  PerDim<3> output = 1;
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool3d(x, output); }
};
struct AdaptiveMaxPool1d {
  int output = 1;
  Tensor operator()(const Tensor& x) const { return adaptive_max_pool1d(x, output); }
  ValuesIndices with_indices(const Tensor& x) const { return adaptive_max_pool1d_with_indices(x, output); }
};
struct AdaptiveMaxPool2d {
  PerDim<2> output = 1;
  Tensor operator()(const Tensor& x) const { return adaptive_max_pool2d(x, output); }
  ValuesIndices with_indices(const Tensor& x) const { return adaptive_max_pool2d_with_indices(x, output); }
};
struct AdaptiveMaxPool3d {
  PerDim<3> output = 1;
  Tensor operator()(const Tensor& x) const { return adaptive_max_pool3d(x, output); }
  ValuesIndices with_indices(const Tensor& x) const { return adaptive_max_pool3d_with_indices(x, output); }
};

// Max pooling over random windows (core/ops_special.h). Set one of the two options: the output size, or its ratio to
// the input size, between 0 and 1. The random samples are drawn anew in each call, or passed in.
struct FractionalMaxPool2d {
  struct Options { std::optional<PerDim<2>> output_size = {}; std::optional<std::array<double, 2>> output_ratio = {}; };
  FractionalMaxPool2d(PerDim<2> kernel, const Options& o) : kernel(kernel), options(o) {
    detail::check_fractions("FractionalMaxPool2d", o.output_size.has_value(), o.output_ratio);
  }
  Tensor operator()(const Tensor& x, const Tensor& samples = {}) const { return with_indices(x, samples).values; }
  ValuesIndices with_indices(const Tensor& x, const Tensor& samples = {}) const {
    return fractional_max_pool2d_with_indices(
        x, kernel, detail::fractional_size<2>(x, options.output_size, options.output_ratio), samples);
  }
  PerDim<2> kernel;
  Options options;
};
struct FractionalMaxPool3d {
  struct Options { std::optional<PerDim<3>> output_size = {}; std::optional<std::array<double, 3>> output_ratio = {}; };
  FractionalMaxPool3d(PerDim<3> kernel, const Options& o) : kernel(kernel), options(o) {
    detail::check_fractions("FractionalMaxPool3d", o.output_size.has_value(), o.output_ratio);
  }
  Tensor operator()(const Tensor& x, const Tensor& samples = {}) const { return with_indices(x, samples).values; }
  ValuesIndices with_indices(const Tensor& x, const Tensor& samples = {}) const {
    return fractional_max_pool3d_with_indices(
        x, kernel, detail::fractional_size<3>(x, options.output_size, options.output_ratio), samples);
  }
  PerDim<3> kernel;
  Options options;
};

// Inverts a MaxPool, given its indices; output_size resolves the ambiguity of strides.
struct MaxUnpool1d {
  int kernel;
  Pool1dOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& indices, const Dims& output_size = {}) const {
    return max_unpool1d(x, indices, kernel, options, output_size);
  }
};
struct MaxUnpool2d {
  MaxUnpool2d(PerDim<2> kernel, const Pool2dOptions& options = {}) : kernel(kernel), options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& indices, const Dims& output_size = {}) const {
    return max_unpool2d(x, indices, kernel, options, output_size);
  }
  PerDim<2> kernel;
  Pool2dOptions options;
};
struct MaxUnpool3d {
  MaxUnpool3d(PerDim<3> kernel, const Pool3dOptions& options = {}) : kernel(kernel), options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& indices, const Dims& output_size = {}) const {
    return max_unpool3d(x, indices, kernel, options, output_size);
  }
  PerDim<3> kernel;
  Pool3dOptions options;
};

// (sum of x^norm_type over the window)^(1 / norm_type)
struct LPPool1d {
  double norm_type;
  int kernel, stride = 0;
  bool ceil_mode = false;
  Tensor operator()(const Tensor& x) const { return lp_pool1d(x, norm_type, kernel, stride, ceil_mode); }
};
struct LPPool2d {
  double norm_type;
  PerDim<2> kernel, stride = 0;
  bool ceil_mode = false;
  Tensor operator()(const Tensor& x) const { return lp_pool2d(x, norm_type, kernel, stride, ceil_mode); }
};
struct LPPool3d {
  double norm_type;
  PerDim<3> kernel, stride = 0;
  bool ceil_mode = false;
  Tensor operator()(const Tensor& x) const { return lp_pool3d(x, norm_type, kernel, stride, ceil_mode); }
};

struct Flatten {
  int start = 1, end = -1;
  Tensor operator()(const Tensor& x) const { return flatten(x, start, end); }
};

}  // namespace mantissa::nn
