// Parameter initialisation, in place, from the default generator (core/random.h). Names and formulas follow
// torch.nn.init. Xavier: Glorot and Bengio, 2010; Kaiming: He et al., 2015.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace mantissa::nn::init {

void constant_(const Tensor& t, double value);
void uniform_(const Tensor& t, double low = 0, double high = 1);
void normal_(const Tensor& t, double mean = 0, double std = 1);
void zeros_(const Tensor& t);
void ones_(const Tensor& t);
// Normal, redrawn where outside [low, high].
void trunc_normal_(const Tensor& t, double mean = 0, double std = 1, double low = -2, double high = 2);
// The identity matrix; t has 2 dimensions.
void eye_(const Tensor& t);
// A convolution that passes the first channels of each group through unchanged; t has 3 to 5 dimensions.
void dirac_(const Tensor& t, int groups = 1);
// Orthonormal rows or columns (of t as a matrix [size(0), rest]), times gain (Saxe et al., 2013).
void orthogonal_(const Tensor& t, double gain = 1);
// Normal, with a fraction `sparsity` of each column set to 0 (Martens, 2010); t has 2 dimensions.
void sparse_(const Tensor& t, double sparsity, double std = 0.01);

// fan_in and fan_out: size(1) and size(0), times the kernel's area. The tensor must have at least 2 dimensions.
struct Fans {
  double in = 0, out = 0;
};
Fans fans(const Tensor& t);

enum class Fan { in, out };
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
// Compensates for the activation's shrinking of the standard deviation. `slope`: leaky_relu's.
double gain(Nonlinearity nonlinearity, double slope = 0.01);
// The same by PyTorch's names: "linear", "conv1d" ... "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu",
// "selu".
double calculate_gain(std::string_view nonlinearity, double slope = 0.01);

void xavier_uniform_(const Tensor& t, double gain = 1);
void xavier_normal_(const Tensor& t, double gain = 1);
// `a`: the slope passed to gain().
void kaiming_uniform_(const Tensor& t, double a = 0, Fan fan = Fan::in,
                      Nonlinearity nonlinearity = Nonlinearity::leaky_relu);
void kaiming_normal_(const Tensor& t, double a = 0, Fan fan = Fan::in,
                     Nonlinearity nonlinearity = Nonlinearity::leaky_relu);

// PyTorch's default for linear and convolution layers: weight and bias uniform in
// (-1, 1) / sqrt(fan_in). An undefined bias is left out.
void default_weight_and_bias_(const Tensor& weight, const Tensor& bias);

}  // namespace mantissa::nn::init
