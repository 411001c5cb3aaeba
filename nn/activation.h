// Activations as layers, for use in Sequential or as members, with PyTorch's names and defaults. Only PReLU has a
// parameter. The function forms (relu, gelu, ...) are in core/ops.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ops.h"
#include "nn/copy_fields.h"
#include "nn/fields.h"

namespace mantissa::nn {

struct ReLU { Tensor operator()(const Tensor& x) const { return relu(x); } };
struct ReLU6 { Tensor operator()(const Tensor& x) const { return relu6(x); } };
struct GELU {
  std::string_view approximate = "none";  // or "tanh"
  Tensor operator()(const Tensor& x) const { return gelu(x, approximate); }
};
struct SiLU { Tensor operator()(const Tensor& x) const { return silu(x); } };
struct Tanh { Tensor operator()(const Tensor& x) const { return tanh(x); } };
struct Sigmoid { Tensor operator()(const Tensor& x) const { return sigmoid(x); } };
struct LogSigmoid { Tensor operator()(const Tensor& x) const { return logsigmoid(x); } };
struct Mish { Tensor operator()(const Tensor& x) const { return mish(x); } };
struct SELU { Tensor operator()(const Tensor& x) const { return selu(x); } };
struct Hardsigmoid { Tensor operator()(const Tensor& x) const { return hardsigmoid(x); } };
struct Hardswish { Tensor operator()(const Tensor& x) const { return hardswish(x); } };
struct ELU {
  double alpha = 1;
  Tensor operator()(const Tensor& x) const { return elu(x, alpha); }
};
struct CELU {
  double alpha = 1;
  Tensor operator()(const Tensor& x) const { return celu(x, alpha); }
};
struct Softsign { Tensor operator()(const Tensor& x) const { return softsign(x); } };
struct Tanhshrink { Tensor operator()(const Tensor& x) const { return tanhshrink(x); } };
struct Hardshrink {
  double lambd = 0.5;
  Tensor operator()(const Tensor& x) const { return hardshrink(x, lambd); }
};
struct Softshrink {
  double lambd = 0.5;
  Tensor operator()(const Tensor& x) const { return softshrink(x, lambd); }
};
struct Threshold {  // value where x <= threshold
  double threshold, value;
  Tensor operator()(const Tensor& x) const { return mantissa::threshold(x, threshold, value); }
};
struct RReLU {  // random slopes in training, their mean in evaluation mode
  double lower = 1.0 / 8, upper = 1.0 / 3;
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const { return rrelu(x, lower, upper, mode.training); }
};
struct LeakyReLU {
  double negative_slope = 0.01;
  Tensor operator()(const Tensor& x) const { return leaky_relu(x, negative_slope); }
};
struct Hardtanh {
  double min_val = -1, max_val = 1;
  Tensor operator()(const Tensor& x) const { return hardtanh(x, min_val, max_val); }
};
struct Softplus {
  double beta = 1, threshold = 20;
  Tensor operator()(const Tensor& x) const { return softplus(x, beta, threshold); }
};
struct GLU {  // splits dim into two halves: a * sigmoid(b)
  int dim = -1;
  Tensor operator()(const Tensor& x) const { return glu(x, dim); }
};
class PReLU {  // one slope, or one per channel (dim 1)
 public:
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25) : weight(full({num_parameters}, init)) {}
  Tensor operator()(const Tensor& x) const { return prelu(x, weight); }

  Param weight;
  MANTISSA_FIELDS(weight)
  PReLU clone() const {
    PReLU c;
    copy_fields(*this, c);
    return c;
  }
};
struct Identity { Tensor operator()(const Tensor& x) const { return x; } };
struct Softmax {
  int dim = -1;
  Tensor operator()(const Tensor& x) const { return softmax(x, dim); }
};
struct Softmin {
  int dim = -1;
  Tensor operator()(const Tensor& x) const { return softmin(x, dim); }
};
struct Softmax2d {  // softmax over the channels at each pixel, x [N, C, H, W] or [C, H, W]
  Tensor operator()(const Tensor& x) const {
    check(x.dim() == 3 || x.dim() == 4, "Softmax2d: needs [N, C, H, W] or [C, H, W], got ", x);
    return softmax(x, -3);
  }
};
struct LogSoftmax {
  int dim = -1;
  Tensor operator()(const Tensor& x) const { return log_softmax(x, dim); }
};

}  // namespace mantissa::nn
