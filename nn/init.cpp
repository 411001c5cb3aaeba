#include "nn/init.h"

#include <cmath>

#include "autograd/grad_mode.h"
#include "core/random.h"

namespace mantissa::nn::init {

void constant_(const Tensor& t, double value) {
  const NoGrad no_grad;
  Tensor handle = t;
  handle.fill_(value);
}
void uniform_(const Tensor& t, double low, double high) {
  const NoGrad no_grad;
  Tensor handle = t;
  mantissa::uniform_(handle, low, high);
}
void normal_(const Tensor& t, double mean, double std) {
  const NoGrad no_grad;
  Tensor handle = t;
  mantissa::normal_(handle, mean, std);
}

Fans fans(const Tensor& t) {
  check(t.dim() >= 2, "init: fan in and fan out need at least 2 dimensions, got ", t);
  double area = 1;
  for (int d = 2; d < t.dim(); ++d) area *= static_cast<double>(t.size(d));
  return {static_cast<double>(t.size(1)) * area, static_cast<double>(t.size(0)) * area};
}

double gain(Activation activation, double slope) {
  switch (activation) {
    case Activation::tanh: return 5.0 / 3;
    case Activation::relu: return std::sqrt(2.0);
    case Activation::leaky_relu: return std::sqrt(2 / (1 + slope * slope));
    default: return 1;
  }
}

namespace {
double xavier_std(const Tensor& t, double gain) {
  const Fans f = fans(t);
  return gain * std::sqrt(2 / (f.in + f.out));
}
double kaiming_std(const Tensor& t, double a, Fan fan, Activation activation) {
  const Fans f = fans(t);
  return gain(activation, a) / std::sqrt(fan == Fan::in ? f.in : f.out);
}
void uniform_of_std(const Tensor& t, double std) {
  if (t.numel() == 0) return;
  const double bound = std::sqrt(3.0) * std;
  uniform_(t, -bound, bound);
}
}  // namespace

void xavier_uniform_(const Tensor& t, double gain) { uniform_of_std(t, xavier_std(t, gain)); }
void xavier_normal_(const Tensor& t, double gain) {
  if (t.numel() > 0) normal_(t, 0, xavier_std(t, gain));
}
void kaiming_uniform_(const Tensor& t, double a, Fan fan, Activation activation) {
  uniform_of_std(t, kaiming_std(t, a, fan, activation));
}
void kaiming_normal_(const Tensor& t, double a, Fan fan, Activation activation) {
  if (t.numel() > 0) normal_(t, 0, kaiming_std(t, a, fan, activation));
}

void default_weight_and_bias_(const Tensor& weight, const Tensor& bias) {
  kaiming_uniform_(weight, std::sqrt(5.0));
  const double fan_in = fans(weight).in;
  if (!bias.defined() || fan_in == 0) return;
  const double bound = 1 / std::sqrt(fan_in);
  uniform_(bias, -bound, bound);
}

}  // namespace mantissa::nn::init
