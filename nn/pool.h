// Pooling and flattening as layers: nn::MaxPool2d{2}, nn::AvgPool2d{3, {.stride = 2, .padding = 1}}.
// x [N, C, H, W]. As their torch.nn namesakes; the stride is the kernel's size unless given.
#pragma once

#include <optional>

#include "core/ops.h"
#include "nn/pair.h"

namespace mantissa::nn {

struct PoolOptions {
  std::optional<Pair> stride = {};
  Pair padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // average pooling only
};

namespace detail {
inline Pool2dOptions pool_options(Pair kernel, const PoolOptions& o) {
  return {.stride = o.stride.value_or(kernel), .padding = o.padding, .ceil_mode = o.ceil_mode,
          .count_include_pad = o.count_include_pad};
}
}  // namespace detail

struct MaxPool2d {
  MaxPool2d(Pair kernel, const PoolOptions& o = {}) : kernel(kernel), options(detail::pool_options(kernel, o)) {}
  Tensor operator()(const Tensor& x) const { return max_pool2d(x, kernel, options); }
  std::array<int, 2> kernel;
  Pool2dOptions options;
};
struct AvgPool2d {
  AvgPool2d(Pair kernel, const PoolOptions& o = {}) : kernel(kernel), options(detail::pool_options(kernel, o)) {}
  Tensor operator()(const Tensor& x) const { return avg_pool2d(x, kernel, options); }
  std::array<int, 2> kernel;
  Pool2dOptions options;
};
struct AdaptiveAvgPool2d {
  Pair output = 1;
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool2d(x, output); }
};
struct Flatten {
  int start = 1, end = -1;
  Tensor operator()(const Tensor& x) const { return flatten(x, start, end); }
};

}  // namespace mantissa::nn
