// Linear: y = x weight^T + bias. x [*, in], weight [out, in], bias [out], y [*, out], as torch.nn.Linear: weight and
// bias are initialised uniformly in +-1 / sqrt(in). Also LinearAct, a Linear with an activation; feed_forward, the MLP
// of a transformer block; and Bilinear.
#pragma once

#include <cmath>

#include "core/fused_ops.h"
#include "core/ops.h"
#include "nn/copy_fields.h"
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
    copy_fields(*this, c);
    return c;
  }

 protected:
  Linear() = default;
};

// activation(linear(x)) as one operator, with the parameters, results and gradients of a Linear followed by relu or
// gelu. In f16 and bf16 on a GPU it saves a pass over memory; on a CPU it is no faster than the two separately.
//   nn::LinearAct up{768, 3072, Activation::gelu_tanh};    instead of gelu(up(x), "tanh")
class LinearAct : public Linear {
 public:
  LinearAct(std::int64_t in, std::int64_t out, Activation act, const LinearOptions& o = {})
      : Linear(in, out, o), activation(act) {}
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias, activation); }

  Activation activation;
  LinearAct clone() const {
    LinearAct c;
    copy_fields(*this, c);
    c.activation = activation;
    return c;
  }

 private:
  LinearAct() = default;
};

// down(up(x)), the MLP of a transformer block: x + nn::feed_forward(up, down, norm(x)). core/fused_ops.h says what its
// kernels do together.
inline Tensor feed_forward(const LinearAct& up, const Linear& down, const Tensor& x) {
  return mantissa::feed_forward(x, up.weight, up.bias, up.activation, down.weight, down.bias);
}

// y[o] = x1^T weight[o] x2 + bias[o]. x1 [*, in1], x2 [*, in2], weight [out, in1, in2], as torch.nn.Bilinear.
class Bilinear {
 public:
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, const LinearOptions& o = {})
      : weight(empty({out, in1, in2})), bias(o.bias ? Param(empty({out})) : Param()) {
    check(in1 > 0, "Bilinear: in1_features must be positive, got ", in1);
    const double bound = 1 / std::sqrt(static_cast<double>(in1));
    init::uniform_(weight, -bound, bound);
    if (bias.defined()) init::uniform_(bias, -bound, bound);
  }
  Tensor operator()(const Tensor& x1, const Tensor& x2) const { return bilinear(x1, x2, weight, bias); }

  Param weight, bias;
  MANTISSA_FIELDS(weight, bias)
  Bilinear clone() const {
    Bilinear c;
    copy_fields(*this, c);
    return c;
  }

 private:
  Bilinear() = default;
};

}  // namespace mantissa::nn
