// Filling parameters with their first values, in place, from the default generator (core/random.h).
// Names and formulas follow torch.nn.init. Xavier: Glorot and Bengio, 2010; Kaiming: He et al., 2015.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace mantissa::nn::init {

void constant_(const Tensor& t, double value);
void uniform_(const Tensor& t, double low = 0, double high = 1);
void normal_(const Tensor& t, double mean = 0, double std = 1);
void zeros_(const Tensor& t);
void ones_(const Tensor& t);
// Normal, drawn again where it is outside [low, high].
void trunc_normal_(const Tensor& t, double mean = 0, double std = 1, double low = -2, double high = 2);
// The identity matrix; t has 2 dimensions.
void eye_(const Tensor& t);
// A convolution that passes its first channels on; t has 3 to 5 dimensions, in each of `groups`.
void dirac_(const Tensor& t, int groups = 1);
// Rows or columns (of t as a matrix [size(0), rest]) that are orthonormal, times gain (Saxe et al., 2013).
void orthogonal_(const Tensor& t, double gain = 1);
// Normal, with a share `sparsity` of each column 0 (Martens, 2010); t has 2 dimensions.
void sparse_(const Tensor& t, double sparsity, double std = 0.01);

// How many inputs feed one output, and the reverse: sizes 1 and 0 times the kernel's area. The tensor
// must have at least 2 dimensions.
struct Fans {
  double in = 0, out = 0;
};
Fans fans(const Tensor& t);

enum class Fan { in, out };
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
// By how much an activation shrinks its input's standard deviation. `slope` is leaky_relu's.
double gain(Nonlinearity nonlinearity, double slope = 0.01);
// The same by PyTorch's names: "linear", "conv1d" ... "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu",
// "selu".
double calculate_gain(std::string_view nonlinearity, double slope = 0.01);

void xavier_uniform_(const Tensor& t, double gain = 1);
void xavier_normal_(const Tensor& t, double gain = 1);
// `a` is the slope that gain() gets.
void kaiming_uniform_(const Tensor& t, double a = 0, Fan fan = Fan::in,
                      Nonlinearity nonlinearity = Nonlinearity::leaky_relu);
void kaiming_normal_(const Tensor& t, double a = 0, Fan fan = Fan::in,
                     Nonlinearity nonlinearity = Nonlinearity::leaky_relu);

// PyTorch's default for linear and convolution layers: weight and bias uniform in
// (-1, 1) / sqrt(fan_in). An undefined bias is left out.
void default_weight_and_bias_(const Tensor& weight, const Tensor& bias);

}  // namespace mantissa::nn::init
