#include "nn/init.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "autograd/grad_mode.h"
#include "core/ops.h"
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

double gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::tanh: return 5.0 / 3;
    case Nonlinearity::selu: return 0.75;
    case Nonlinearity::relu: return std::sqrt(2.0);
    case Nonlinearity::leaky_relu: return std::sqrt(2 / (1 + slope * slope));
    default: return 1;
  }
}

double calculate_gain(std::string_view name, double slope) {
  if (name == "tanh") return gain(Nonlinearity::tanh);
  if (name == "relu") return gain(Nonlinearity::relu);
  if (name == "leaky_relu") return gain(Nonlinearity::leaky_relu, slope);
  if (name == "selu") return gain(Nonlinearity::selu);
  const bool plain = name == "linear" || name == "sigmoid" || name.starts_with("conv");
  check(plain, "init: calculate_gain does not know the nonlinearity \"", std::string(name), "\"");
  return 1;
}

namespace {
// Writes f64 values in row-major order.
void assign(const Tensor& t, const std::vector<double>& values) {
  const NoGrad no_grad;
  Tensor handle = t;
  handle.copy_(from_data<double>(values, t.sizes()).to(t.device()));
}
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
// Orthonormalises the n vectors of `size` at v by Gram-Schmidt; twice, because once is not accurate.
void orthonormalise(std::vector<double>& v, std::int64_t n, std::int64_t size) {
  const auto at = [&](std::int64_t i) { return v.data() + i * size; };
  const auto dot = [size](const double* a, const double* b) { return std::inner_product(a, a + size, b, 0.0); };
  for (std::int64_t i = 0; i < n; ++i) {
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < i; ++j) {
        const double along = dot(at(i), at(j));
        for (std::int64_t k = 0; k < size; ++k) at(i)[k] -= along * at(j)[k];
      }
      const double length = std::sqrt(dot(at(i), at(i)));
      for (std::int64_t k = 0; k < size; ++k) at(i)[k] /= length;
    }
  }
}
}  // namespace

void zeros_(const Tensor& t) { constant_(t, 0); }
void ones_(const Tensor& t) { constant_(t, 1); }
void trunc_normal_(const Tensor& t, double mean, double std, double low, double high) {
  check(std > 0 && low < high, "init: trunc_normal_ needs std above 0 and low below high, got ", std, ", ", low,
        " and ", high);
  const double from = normal_cdf((low - mean) / std), to = normal_cdf((high - mean) / std);
  const Tensor u = rand(t.sizes(), {.dtype = f64}) * (to - from) + from;  // by the inverse distribution function
  assign(t, clamp(erfinv(2.0 * u - 1.0) * (std * std::sqrt(2.0)) + mean, low, high).to_vector<double>());
}
void eye_(const Tensor& t) {
  check(t.dim() == 2, "init: eye_ needs 2 dimensions, got ", t);
  std::vector<double> v(static_cast<std::size_t>(t.numel()), 0);
  for (std::int64_t i = 0; i < std::min(t.size(0), t.size(1)); ++i) v[static_cast<std::size_t>(i * t.size(1) + i)] = 1;
  assign(t, v);
}
void dirac_(const Tensor& t, int groups) {
  check(t.dim() >= 3 && t.dim() <= 5, "init: dirac_ needs 3 to 5 dimensions, got ", t);
  check(groups >= 1 && t.size(0) % groups == 0, "init: dirac_ needs groups that divide ", t.size(0), " channels, got ",
        groups);
  std::vector<double> v(static_cast<std::size_t>(t.numel()), 0);
  const std::int64_t out = t.size(0) / groups, area = t.numel() / (t.size(0) * t.size(1));
  std::int64_t centre = 0;
  for (int d = 2; d < t.dim(); ++d) centre = centre * t.size(d) + t.size(d) / 2;
  for (int g = 0; g < groups; ++g) {
    for (std::int64_t c = 0; c < std::min(out, t.size(1)); ++c)
      v[static_cast<std::size_t>(((g * out + c) * t.size(1) + c) * area + centre)] = 1;
  }
  assign(t, v);
}
void orthogonal_(const Tensor& t, double gain) {
  check(t.dim() >= 2, "init: orthogonal_ needs at least 2 dimensions, got ", t);
  if (t.numel() == 0) return;
  const std::int64_t rows = t.size(0), columns = t.numel() / rows, n = std::min(rows, columns),
                     size = std::max(rows, columns);
  std::vector<double> v = randn({n, size}, {.dtype = f64}).to_vector<double>();
  orthonormalise(v, n, size);
  const Tensor q = from_data<double>(v, {n, size}) * gain;
  assign(t, (rows <= columns ? q : transpose(q)).to_vector<double>());
}
void sparse_(const Tensor& t, double sparsity, double std) {
  check(t.dim() == 2, "init: sparse_ needs 2 dimensions, got ", t);
  check(sparsity >= 0 && sparsity <= 1, "init: sparsity must be between 0 and 1, got ", sparsity);
  const std::int64_t rows = t.size(0), columns = t.size(1);
  const auto zeros = static_cast<std::size_t>(std::ceil(sparsity * static_cast<double>(rows)));
  std::vector<double> v = (randn(t.sizes(), {.dtype = f64}) * std).to_vector<double>();
  for (std::int64_t c = 0; c < columns; ++c) {
    const std::vector<std::int64_t> order = randperm(rows).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < zeros; ++i) v[static_cast<std::size_t>(order[i] * columns + c)] = 0;
  }
  assign(t, v);
}

namespace {
double xavier_std(const Tensor& t, double gain) {
  const Fans f = fans(t);
  return gain * std::sqrt(2 / (f.in + f.out));
}
double kaiming_std(const Tensor& t, double a, Fan fan, Nonlinearity nonlinearity) {
  const Fans f = fans(t);
  return gain(nonlinearity, a) / std::sqrt(fan == Fan::in ? f.in : f.out);
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
void kaiming_uniform_(const Tensor& t, double a, Fan fan, Nonlinearity nonlinearity) {
  uniform_of_std(t, kaiming_std(t, a, fan, nonlinearity));
}
void kaiming_normal_(const Tensor& t, double a, Fan fan, Nonlinearity nonlinearity) {
  if (t.numel() > 0) normal_(t, 0, kaiming_std(t, a, fan, nonlinearity));
}

void default_weight_and_bias_(const Tensor& weight, const Tensor& bias) {
  kaiming_uniform_(weight, std::sqrt(5.0));
  const double fan_in = fans(weight).in;
  if (!bias.defined() || fan_in == 0) return;
  const double bound = 1 / std::sqrt(fan_in);
  uniform_(bias, -bound, bound);
}

}  // namespace mantissa::nn::init
