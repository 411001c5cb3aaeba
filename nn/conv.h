// Conv2d: x [N, in, H, W] -> [N, out, H', W'], weight [out, in / groups, kh, kw], as torch.nn.Conv2d.
//   nn::Conv2d conv{64, 128, 3, {.stride = 2, .padding = 1, .bias = false}};
#pragma once

#include "core/ops.h"
#include "nn/fields.h"
#include "nn/init.h"
#include "nn/pair.h"

namespace mantissa::nn {

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int groups = 1;  // divides both channel counts
  bool bias = true;
};

class Conv2d {
 public:
  Conv2d(std::int64_t in, std::int64_t out, Pair kernel, const Conv2dOptions& o = {})
      : options{o.stride, o.padding, o.dilation, o.groups} {
    check(o.groups >= 1 && in % o.groups == 0 && out % o.groups == 0, "Conv2d: groups ", o.groups,
          " must divide the channels, ", in, " in and ", out, " out");
    weight = Param(empty({out, in / o.groups, kernel.height, kernel.width}));
    if (o.bias) bias = Param(empty({out}));
    init::default_weight_and_bias_(weight, bias);
  }
  Tensor operator()(const Tensor& x) const { return conv2d(x, weight, bias, options); }

  Param weight, bias;
  mantissa::Conv2dOptions options;
  MANTISSA_FIELDS(weight, bias)
  Conv2d clone() const {
    Conv2d c;
    c.weight = nn::clone(weight);
    c.bias = nn::clone(bias);
    c.options = options;
    return c;
  }

 private:
  Conv2d() = default;
};

}  // namespace mantissa::nn
