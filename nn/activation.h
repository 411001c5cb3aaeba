// Activations as layers, for Sequential and for members. They have no state; the functions relu, gelu,
// ... of core/ops.h do the same.
#pragma once

#include "core/ops.h"

namespace mantissa::nn {

struct ReLU { Tensor operator()(const Tensor& x) const { return relu(x); } };
struct GELU { Tensor operator()(const Tensor& x) const { return gelu(x); } };
struct SiLU { Tensor operator()(const Tensor& x) const { return silu(x); } };
struct Tanh { Tensor operator()(const Tensor& x) const { return tanh(x); } };
struct Sigmoid { Tensor operator()(const Tensor& x) const { return sigmoid(x); } };
struct Identity { Tensor operator()(const Tensor& x) const { return x; } };
struct Softmax {
  int dim = -1;
  Tensor operator()(const Tensor& x) const { return softmax(x, dim); }
};
struct LogSoftmax {
  int dim = -1;
  Tensor operator()(const Tensor& x) const { return log_softmax(x, dim); }
};

}  // namespace mantissa::nn
