// Layers without parameters that change shapes: padding, one-dimensional pooling, PixelShuffle,
// Upsample, Unfold and Fold, Unflatten. As their torch.nn namesakes.
//   nn::ZeroPad2d edge{{1, 1, 2, 0}};   // left, right, top, bottom; nn::ZeroPad2d{1} for all four
#pragma once

#include <optional>

#include "core/ops.h"
#include "nn/pair.h"

namespace mantissa::nn {

// Borders of one and two dimensions: one number for all sides, or (left, right[, top, bottom]).
struct Borders1d {
  Borders1d(int all) : left(all), right(all) {}
  Borders1d(int left, int right) : left(left), right(right) {}
  operator Dims() const { return {left, right}; }
  int left, right;
};
struct Borders2d {
  Borders2d(int all) : left(all), right(all), top(all), bottom(all) {}
  Borders2d(int left, int right, int top, int bottom) : left(left), right(right), top(top), bottom(bottom) {}
  operator Dims() const { return {left, right, top, bottom}; }
  int left, right, top, bottom;
};

struct ConstantPad1d {
  Borders1d padding;
  double value = 0;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "constant", value); }
};
struct ConstantPad2d {
  Borders2d padding;
  double value = 0;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "constant", value); }
};
struct ZeroPad1d {
  Borders1d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding); }
};
struct ZeroPad2d {
  Borders2d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding); }
};
struct ReflectionPad1d {
  Borders1d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "reflect"); }
};
struct ReflectionPad2d {
  Borders2d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "reflect"); }
};
struct ReplicationPad1d {
  Borders1d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "replicate"); }
};
struct ReplicationPad2d {
  Borders2d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "replicate"); }
};
struct CircularPad1d {
  Borders1d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "circular"); }
};
struct CircularPad2d {
  Borders2d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "circular"); }
};

struct MaxPool1d {  // x [N, C, L]; the stride is the kernel's size unless given
  int kernel;
  Pool1dOptions options = {};
  Tensor operator()(const Tensor& x) const { return max_pool1d(x, kernel, options); }
};
struct AvgPool1d {
  int kernel;
  Pool1dOptions options = {};
  Tensor operator()(const Tensor& x) const { return avg_pool1d(x, kernel, options); }
};
struct AdaptiveAvgPool1d {
  int output = 1;
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool1d(x, output); }
};

struct PixelShuffle {
  int upscale_factor;
  Tensor operator()(const Tensor& x) const { return pixel_shuffle(x, upscale_factor); }
};
struct PixelUnshuffle {
  int downscale_factor;
  Tensor operator()(const Tensor& x) const { return pixel_unshuffle(x, downscale_factor); }
};
struct Upsample {  // nn::Upsample{{.scale_factor = {2}, .mode = "bilinear"}}; the mode must be a literal
  InterpolateOptions options;
  Tensor operator()(const Tensor& x) const { return interpolate(x, options); }
};
struct Unfold {
  Pair kernel_size;
  UnfoldOptions options = {};
  Tensor operator()(const Tensor& x) const { return unfold(x, kernel_size, options); }
};
struct Fold {
  Pair output_size, kernel_size;
  UnfoldOptions options = {};
  Tensor operator()(const Tensor& x) const { return fold(x, output_size, kernel_size, options); }
};
struct Unflatten {  // dimension `dim` becomes several; one of `sizes` may be -1
  int dim = 1;
  Dims sizes;
  Tensor operator()(const Tensor& x) const {
    const int d = wrap_dim(dim, x.dim());
    const Dims parts = infer_shape(sizes, x.size(d));
    Dims shape;
    for (int i = 0; i < d; ++i) shape.push_back(x.sizes()[i]);
    for (std::int64_t s : parts) shape.push_back(s);
    for (int i = d + 1; i < x.dim(); ++i) shape.push_back(x.sizes()[i]);
    return reshape(x, shape);
  }
};

}  // namespace mantissa::nn
