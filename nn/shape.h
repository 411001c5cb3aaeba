// Parameter-free layers that change shapes: padding, PixelShuffle, ChannelShuffle, Upsample, Unfold and Fold,
// Unflatten. As their torch.nn namesakes. Pooling is in nn/pool.h.
//   nn::ZeroPad2d edge{{1, 1, 2, 0}};   // left, right, top, bottom; nn::ZeroPad2d{1} for all four
#pragma once

#include "core/ops.h"
#include "core/per_dim.h"
#include "nn/pool.h"

namespace mantissa::nn {

// Padding of one to three dimensions: one number for all sides, or (left, right[, top, bottom[, front, back]]).
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

struct Borders3d {
  Borders3d(int all) : sides{all, all, all, all, all, all} {}
  Borders3d(int left, int right, int top, int bottom, int front, int back)
      : sides{left, right, top, bottom, front, back} {}
  operator Dims() const { return sides; }
  Dims sides;
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

struct ConstantPad3d {
  Borders3d padding;
  double value = 0;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "constant", value); }
};
struct ZeroPad3d {
  Borders3d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding); }
};
struct ReflectionPad3d {
  Borders3d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "reflect"); }
};
struct ReplicationPad3d {
  Borders3d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "replicate"); }
};
struct CircularPad3d {
  Borders3d padding;
  Tensor operator()(const Tensor& x) const { return pad(x, padding, "circular"); }
};

struct PixelShuffle {
  int upscale_factor;
  Tensor operator()(const Tensor& x) const { return pixel_shuffle(x, upscale_factor); }
};
struct PixelUnshuffle {
  int downscale_factor;
  Tensor operator()(const Tensor& x) const { return pixel_unshuffle(x, downscale_factor); }
};
struct ChannelShuffle {
  int groups;
  Tensor operator()(const Tensor& x) const { return channel_shuffle(x, groups); }
};
struct UpsamplingNearest2d {  // nn::UpsamplingNearest2d{{.scale_factor = {2}}}
  InterpolateOptions options;
  Tensor operator()(const Tensor& x) const {
    return interpolate(x, {.size = options.size, .scale_factor = options.scale_factor, .mode = "nearest"});
  }
};
struct UpsamplingBilinear2d {  // with align_corners
  InterpolateOptions options;
  Tensor operator()(const Tensor& x) const {
    return interpolate(x, {.size = options.size, .scale_factor = options.scale_factor, .mode = "bilinear",
                           .align_corners = true});
  }
};
struct Upsample {  // nn::Upsample{{.scale_factor = {2}, .mode = "bilinear"}}; mode must be a literal
  InterpolateOptions options;
  Tensor operator()(const Tensor& x) const { return interpolate(x, options); }
};
struct Unfold {
  Unfold(PerDim<2> kernel_size, const UnfoldOptions& options = {}) : kernel_size(kernel_size), options(options) {}
  Tensor operator()(const Tensor& x) const { return unfold(x, kernel_size, options); }
  PerDim<2> kernel_size;
  UnfoldOptions options;
};
struct Fold {
  Fold(PerDim<2> output_size, PerDim<2> kernel_size, const UnfoldOptions& options = {})
      : output_size(output_size), kernel_size(kernel_size), options(options) {}
  Tensor operator()(const Tensor& x) const { return fold(x, output_size, kernel_size, options); }
  PerDim<2> output_size, kernel_size;
  UnfoldOptions options;
};
struct Unflatten {  // splits dimension `dim`; one of `sizes` may be -1
  int dim = 1;
  Dims sizes;
  Tensor operator()(const Tensor& x) const { return unflatten(x, dim, sizes); }
};

}  // namespace mantissa::nn
