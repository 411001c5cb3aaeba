// Conv1d, Conv2d and Conv3d: x [N, in, ...] -> [N, out, ...], weight [out, in / groups, kernel...]. Same as in
// torch.nn.
//   nn::Conv2d conv{64, 128, 3, {.stride = 2, .padding = 1, .bias = false}};
//   nn::Conv1d line{8, 8, 5, {.padding = "same", .padding_mode = "circular"}};
// ConvReLU2d and ConvReLU3d end in relu: relu(conv(x)) with less memory traffic on a GPU (conv2d_relu in
// core/fused_ops.h), with the same parameters. As in torch.ao.nn.intrinsic.
#pragma once

#include <string>

#include "core/fused_ops.h"
#include "core/ops.h"
#include "nn/copy_fields.h"
#include "nn/fields.h"
#include "nn/init.h"
#include "nn/padding.h"

namespace mantissa::nn {

// padding_mode: zeros, reflect, replicate, circular. groups divides both channel counts.
struct Conv1dOptions {
  int stride = 1;
  Padding<1> padding = 0;
  int dilation = 1, groups = 1;
  bool bias = true;
  std::string padding_mode = "zeros";
};
struct Conv2dOptions {
  PerDim<2> stride = 1;
  Padding<2> padding = 0;
  PerDim<2> dilation = 1;
  int groups = 1;
  bool bias = true;
  std::string padding_mode = "zeros";
};
struct Conv3dOptions {
  PerDim<3> stride = 1;
  Padding<3> padding = 0;
  PerDim<3> dilation = 1;
  int groups = 1;
  bool bias = true;
  std::string padding_mode = "zeros";
};

namespace detail {

template <int n> struct ConvOptionsOf;
template <> struct ConvOptionsOf<1> { using type = Conv1dOptions; };
template <> struct ConvOptionsOf<2> { using type = Conv2dOptions; };
template <> struct ConvOptionsOf<3> { using type = Conv3dOptions; };

inline void check_channels(const char* name, std::int64_t in, std::int64_t out, int groups) {
  check(in >= 1 && out >= 1, name, ": channels must be positive, got ", in, " in and ", out, " out");
  check(groups >= 1 && in % groups == 0 && out % groups == 0,
        name, ": groups ", groups, " must divide the channels, ", in, " in and ", out, " out");
}
// [a, b, kernel...]
template <int n>
Dims weight_sizes(const char* name, std::int64_t a, std::int64_t b, const PerDim<n>& kernel) {
  Dims sizes{a, b};
  for (int k : kernel) {
    check(k >= 1, name, ": the kernel's sizes must be positive, found ", k);
    sizes.push_back(k);
  }
  return sizes;
}

template <int n, bool with_relu = false> class Conv {
 public:
  using Options = typename ConvOptionsOf<n>::type;
  using Sizes = PerDim<n>;
  static constexpr auto name = with_relu ? (n == 2 ? "ConvReLU2d" : "ConvReLU3d")
                                         : (n == 1 ? "Conv1d" : n == 2 ? "Conv2d" : "Conv3d");

  Conv(std::int64_t in, std::int64_t out, Sizes kernel, const Options& o = {})
      : stride(o.stride), padding(o.padding), dilation(o.dilation), groups(o.groups),
        padding_mode(o.padding_mode) {
    check_channels(name, in, out, groups);
    const bool known = padding_mode == "zeros" || padding_mode == "reflect" || padding_mode == "replicate" ||
                       padding_mode == "circular";
    check(known, name,
          ": padding_mode must be zeros, reflect, replicate or circular, got \"", padding_mode, "\"");
    for (int s : stride) check(!padding.same || s == 1, name, ": padding \"same\" needs stride 1, found ", s);
    weight = Param(empty(weight_sizes(name, out, in / groups, kernel)));
    if (o.bias) bias = Param(empty({out}));
    init::default_weight_and_bias_(weight, bias);
  }
  Tensor operator()(const Tensor& x) const {
    Dims borders;  // last dimension first, as pad() expects
    Sizes inside = 0;
    bool even = padding_mode == "zeros";  // padded with zeros, equally on both sides: conv itself can do it
    for (int d = n - 1; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      const std::int64_t extent = (weight.size(d + 2) - 1) * dilation[i];
      const std::int64_t before = padding.same ? extent / 2 : padding.sizes[i],
                         after = padding.same ? extent - before : before;
      borders.push_back(before);
      borders.push_back(after);
      inside[i] = static_cast<int>(before);
      even = even && before == after;
    }
    if (even) return convolve(x, inside);
    check(x.dim() == n + 2, name, ": needs ", n + 2, " dimensions, [N, C, ...], got ", x);
    return convolve(pad(x, borders, padding_mode == "zeros" ? "constant" : std::string_view(padding_mode)), Sizes(0));
  }

  Param weight, bias;
  Sizes stride = 1;
  Padding<n> padding = 0;
  Sizes dilation = 1;
  int groups = 1;
  std::string padding_mode = "zeros";
  MANTISSA_FIELDS(weight, bias)
  Conv clone() const {
    Conv c;
    c.stride = stride;
    c.padding = padding;
    c.dilation = dilation;
    c.groups = groups;
    c.padding_mode = padding_mode;
    copy_fields(*this, c);
    return c;
  }

 private:
  Conv() = default;
  Tensor convolve(const Tensor& x, const Sizes& p) const {
    if constexpr (n == 1) return conv1d(x, weight, bias, {stride[0], p[0], dilation[0], groups});
    else if constexpr (n == 2 && with_relu) return conv2d_relu(x, weight, bias, {stride, p, dilation, groups});
    else if constexpr (with_relu) return conv3d_relu(x, weight, bias, {stride, p, dilation, groups});
    else if constexpr (n == 2) return conv2d(x, weight, bias, {stride, p, dilation, groups});
    else return conv3d(x, weight, bias, {stride, p, dilation, groups});
  }
};

}  // namespace detail

using Conv1d = detail::Conv<1>;  // x [N, in, L]
using Conv2d = detail::Conv<2>;  // x [N, in, H, W]
using Conv3d = detail::Conv<3>;  // x [N, in, D, H, W]
using ConvReLU2d = detail::Conv<2, true>;
using ConvReLU3d = detail::Conv<3, true>;

}  // namespace mantissa::nn
