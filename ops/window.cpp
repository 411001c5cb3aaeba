// Window functions of signal processing, computed on the host in f64 and cached on the device (ops/device_table.h).
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/device_table.h"
#include "ops/length.h"
#include "ops/registry.h"

namespace mantissa {
namespace {

// f at positions from 0 to 1.
template <class F> Tensor window(const char* name, std::int64_t count, bool periodic, const TensorOptions& o, F f) {
  check(count >= 0, name, ": the length must not be negative, got ", count);
  check_length(name, "the length", count);
  check(is_floating(o.dtype), name, ": needs a floating dtype, got ", o.dtype);
  std::vector<double> values(static_cast<std::size_t>(count), 1.0);
  const auto length = static_cast<double>(periodic ? count : count - 1);
  if (count > 1) for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(static_cast<double>(i) / length);
  Tensor y = clone(device_table(values, {count}, o.dtype, o.device));
  if (o.requires_grad) y.requires_grad_();
  return y;
}
double cosine(double place, int k) { return std::cos(2 * std::numbers::pi * k * place); }

}  // namespace

Tensor hann_window(std::int64_t count, bool periodic, TensorOptions o) {
  return window("hann_window", count, periodic, o, [](double t) { return 0.5 - 0.5 * cosine(t, 1); });
}
Tensor hamming_window(std::int64_t count, bool periodic, double alpha, double beta, TensorOptions o) {
  return window("hamming_window", count, periodic, o, [=](double t) { return alpha - beta * cosine(t, 1); });
}
Tensor blackman_window(std::int64_t count, bool periodic, TensorOptions o) {
  return window("blackman_window", count, periodic, o,
                [](double t) { return 0.42 - 0.5 * cosine(t, 1) + 0.08 * cosine(t, 2); });
}
Tensor bartlett_window(std::int64_t count, bool periodic, TensorOptions o) {
  return window("bartlett_window", count, periodic, o, [](double t) { return 1 - std::abs(2 * t - 1); });
}
Tensor kaiser_window(std::int64_t count, bool periodic, double beta, TensorOptions o) {
  // exp(beta) must be finite
  check(beta >= 0 && beta <= 700, "kaiser_window: beta must lie between 0 and 700, got ", beta);
  return window("kaiser_window", count, periodic, o, [=](double t) {
    const double x = 2 * t - 1;
    return std::cyl_bessel_i(0.0, beta * std::sqrt(std::max(1 - x * x, 0.0))) / std::cyl_bessel_i(0.0, beta);
  });
}

namespace {

template <class F> void window_samples(Samples& s, F f) {
  for (const bool periodic : {true, false}) s.call({}, [=](const Tensors&) { return f(6, periodic); });
  s.error_call(
      {}, [=](const Tensors&) { return f(-1, true); }, "the length must not be negative, got -1");
}
void hann_samples(Samples& s) {
  window_samples(s, [](std::int64_t n, bool periodic) { return hann_window(n, periodic, {.dtype = f64}); });
}
void hamming_samples(Samples& s) {
  window_samples(s, [](std::int64_t n, bool periodic) { return hamming_window(n, periodic); });
}
void blackman_samples(Samples& s) {
  window_samples(s, [](std::int64_t n, bool periodic) { return blackman_window(n, periodic); });
}
void bartlett_samples(Samples& s) {
  window_samples(s, [](std::int64_t n, bool periodic) { return bartlett_window(n, periodic); });
  s.error_call(
      {}, [](const Tensors&) { return bartlett_window(3, true, {.dtype = i64}); }, "needs a floating dtype, got i64");
}
void kaiser_samples(Samples& s) {
  window_samples(s, [](std::int64_t n, bool periodic) { return kaiser_window(n, periodic); });
  s.error_call(
      {}, [](const Tensors&) { return kaiser_window(3, true, -1); }, "beta must lie between 0 and 700, got -1");
}
MANTISSA_COMPOSITE(hann_window, hann_samples, .differentiable = false)
MANTISSA_COMPOSITE(hamming_window, hamming_samples, .differentiable = false)
MANTISSA_COMPOSITE(blackman_window, blackman_samples, .differentiable = false)
MANTISSA_COMPOSITE(bartlett_window, bartlett_samples, .differentiable = false)
MANTISSA_COMPOSITE(kaiser_window, kaiser_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
