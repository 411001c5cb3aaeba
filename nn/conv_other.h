// ConvTranspose1d, 2d and 3d, as their torch.nn namesakes: weight [in, out / groups, kernel...].
//   nn::ConvTranspose2d up{64, 32, 4, {.stride = 2, .padding = 1}};
//   up(x, {.output_size = {28, 28}});   // instead of output_padding; with a stride > 1 several sizes are possible
#pragma once

#include "nn/conv.h"

namespace mantissa::nn {

struct ConvTranspose1dOptions {
  int stride = 1, padding = 0, output_padding = 0, groups = 1;
  bool bias = true;
  int dilation = 1;
};
struct ConvTranspose2dOptions {
  PerDim<2> stride = 1, padding = 0, output_padding = 0;
  int groups = 1;
  bool bias = true;
  PerDim<2> dilation = 1;
};
struct ConvTranspose3dOptions {
  PerDim<3> stride = 1, padding = 0, output_padding = 0;
  int groups = 1;
  bool bias = true;
  PerDim<3> dilation = 1;
};

namespace detail {

template <int n> struct TransposeOptionsOf;
template <> struct TransposeOptionsOf<1> { using type = ConvTranspose1dOptions; };
template <> struct TransposeOptionsOf<2> { using type = ConvTranspose2dOptions; };
template <> struct TransposeOptionsOf<3> { using type = ConvTranspose3dOptions; };

template <int n> class ConvTranspose {
 public:
  using Options = typename TransposeOptionsOf<n>::type;
  using Sizes = PerDim<n>;
  static constexpr auto name = n == 1 ? "ConvTranspose1d" : n == 2 ? "ConvTranspose2d" : "ConvTranspose3d";
  struct Call { Dims output_size = {}; };  // sizes of the last n dimensions

  ConvTranspose(std::int64_t in, std::int64_t out, Sizes kernel, const Options& o = {})
      : stride(o.stride), padding(o.padding), output_padding(o.output_padding),
        dilation(o.dilation), groups(o.groups) {
    check_channels(name, in, out, groups);
    weight = Param(empty(weight_sizes(name, in, out / groups, kernel)));
    if (o.bias) bias = Param(empty({out}));
    init::default_weight_and_bias_(weight, bias);
  }
  Tensor operator()(const Tensor& x) const { return spread(x, output_padding); }
  Tensor operator()(const Tensor& x, const Call& call) const {
    if (call.output_size.empty()) return (*this)(x);
    check(call.output_size.rank() == n && x.dim() == n + 2, name, ": output_size needs ", n, " sizes for x of ",
        n + 2, " dimensions, got ",
          call.output_size, " for ", x);
    Sizes extra = 0;
    for (int d = 0; d < n; ++d) {
      const auto i = static_cast<std::size_t>(d);
      const std::int64_t least =
          (x.size(d + 2) - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight.size(d + 2) - 1) + 1;
      const std::int64_t missing = call.output_size[d] - least;
      check(missing >= 0 && missing < stride[i], name, ": output_size ", call.output_size, " must lie between ",
          least, " and ",
            least + stride[i] - 1, " in dimension ", d + 2);
      extra[i] = static_cast<int>(missing);
    }
    return spread(x, extra);
  }

  Param weight, bias;
  Sizes stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int groups = 1;
  MANTISSA_FIELDS(weight, bias)
  ConvTranspose clone() const {
    ConvTranspose c;
    c.stride = stride;
    c.padding = padding;
    c.output_padding = output_padding;
    c.dilation = dilation;
    c.groups = groups;
    copy_fields(*this, c);
    return c;
  }

 private:
  ConvTranspose() = default;
  Tensor spread(const Tensor& x, const Sizes& extra) const {
    if constexpr (n == 1) {
      return conv_transpose1d(x, weight, bias, {stride[0], padding[0], extra[0], dilation[0], groups});
    }
    else if constexpr (n == 2) return conv_transpose2d(x, weight, bias, {stride, padding, extra, dilation, groups});
    else return conv_transpose3d(x, weight, bias, {stride, padding, extra, dilation, groups});
  }
};

}  // namespace detail

using ConvTranspose1d = detail::ConvTranspose<1>;  // x [N, in, L]
using ConvTranspose2d = detail::ConvTranspose<2>;  // x [N, in, H, W]
using ConvTranspose3d = detail::ConvTranspose<3>;  // x [N, in, D, H, W]

}  // namespace mantissa::nn
