// Conv1d, ConvTranspose1d and ConvTranspose2d, as their torch.nn namesakes.
//   nn::ConvTranspose2d up{64, 32, 4, {.stride = 2, .padding = 1}};
#pragma once

#include "core/ops.h"
#include "nn/copy_fields.h"
#include "nn/init.h"
#include "nn/pair.h"

namespace mantissa::nn {

struct Conv1dOptions {
  int stride = 1, padding = 0, dilation = 1;
  int groups = 1;  // divides both channel counts
  bool bias = true;
};
struct ConvTranspose1dOptions {
  int stride = 1, padding = 0, output_padding = 0, groups = 1;
  bool bias = true;
  int dilation = 1;
};
struct ConvTranspose2dOptions {
  Pair stride = 1, padding = 0, output_padding = 0;
  int groups = 1;
  bool bias = true;
  Pair dilation = 1;
};

namespace detail {
inline void check_groups(const char* name, std::int64_t in, std::int64_t out, int groups) {
  check(groups >= 1 && in % groups == 0 && out % groups == 0, name, ": groups ", groups, " must divide the channels, ", in, " in and ", out, " out");
}
}  // namespace detail

class Conv1d {  // x [N, in, L], weight [out, in / groups, k]
 public:
  Conv1d(std::int64_t in, std::int64_t out, int kernel, const Conv1dOptions& o = {}) : options{o.stride, o.padding, o.dilation, o.groups} {
    detail::check_groups("Conv1d", in, out, o.groups);
    weight = Param(empty({out, in / o.groups, kernel}));
    if (o.bias) bias = Param(empty({out}));
    init::default_weight_and_bias_(weight, bias);
  }
  Tensor operator()(const Tensor& x) const { return conv1d(x, weight, bias, options); }

  Param weight, bias;
  mantissa::Conv1dOptions options;
  MANTISSA_FIELDS(weight, bias)
  Conv1d clone() const {
    Conv1d c;
    c.options = options;
    detail::copy_fields(*this, c);
    return c;
  }

 private:
  Conv1d() = default;
};

class ConvTranspose1d {  // x [N, in, L], weight [in, out / groups, k]
 public:
  ConvTranspose1d(std::int64_t in, std::int64_t out, int kernel, const ConvTranspose1dOptions& o = {})
      : options{o.stride, o.padding, o.output_padding, o.dilation, o.groups} {
    detail::check_groups("ConvTranspose1d", in, out, o.groups);
    weight = Param(empty({in, out / o.groups, kernel}));
    if (o.bias) bias = Param(empty({out}));
    init::default_weight_and_bias_(weight, bias);
  }
  Tensor operator()(const Tensor& x) const { return conv_transpose1d(x, weight, bias, options); }

  Param weight, bias;
  mantissa::ConvTranspose1dOptions options;
  MANTISSA_FIELDS(weight, bias)
  ConvTranspose1d clone() const {
    ConvTranspose1d c;
    c.options = options;
    detail::copy_fields(*this, c);
    return c;
  }

 private:
  ConvTranspose1d() = default;
};

class ConvTranspose2d {  // x [N, in, H, W], weight [in, out / groups, kh, kw]
 public:
  ConvTranspose2d(std::int64_t in, std::int64_t out, Pair kernel, const ConvTranspose2dOptions& o = {})
      : options{o.stride, o.padding, o.output_padding, o.dilation, o.groups} {
    detail::check_groups("ConvTranspose2d", in, out, o.groups);
    weight = Param(empty({in, out / o.groups, kernel.height, kernel.width}));
    if (o.bias) bias = Param(empty({out}));
    init::default_weight_and_bias_(weight, bias);
  }
  Tensor operator()(const Tensor& x) const { return conv_transpose2d(x, weight, bias, options); }

  Param weight, bias;
  mantissa::ConvTranspose2dOptions options;
  MANTISSA_FIELDS(weight, bias)
  ConvTranspose2d clone() const {
    ConvTranspose2d c;
    c.options = options;
    detail::copy_fields(*this, c);
    return c;
  }

 private:
  ConvTranspose2d() = default;
};

}  // namespace mantissa::nn
