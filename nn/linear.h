// Linear: y = x weight^T + bias. x [*, in], weight [out, in], y [*, out], as torch.nn.Linear.
#pragma once

#include "core/ops.h"
#include "nn/fields.h"
#include "nn/init.h"

namespace mantissa::nn {

struct LinearOptions {
  bool bias = true;
};

class Linear {
 public:
  Linear(std::int64_t in, std::int64_t out, const LinearOptions& o = {})
      : weight(empty({out, in})), bias(o.bias ? Param(empty({out})) : Param()) {
    init::default_weight_and_bias_(weight, bias);
  }
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }

  Param weight, bias;
  MANTISSA_FIELDS(weight, bias)
  Linear clone() const {
    Linear c;
    c.weight = nn::clone(weight);
    c.bias = nn::clone(bias);
    return c;
  }

 private:
  Linear() = default;
};

}  // namespace mantissa::nn
