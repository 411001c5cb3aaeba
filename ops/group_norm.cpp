// Normalisations made of layer_norm and batch_norm: group_norm (Wu and He, 2018), instance_norm
// (Ulyanov et al., 2016), rms_norm (Zhang and Sennrich, 2019), local_response_norm (Krizhevsky et
// al., 2012). Halves are computed in f32 and rounded once.
#include <limits>

#include "core/ops.h"
#include "ops/compose.h"

namespace mantissa {
namespace {

Tensor widened(const Tensor& x) { return x.defined() && is_half(x.dtype()) ? cast(x, f32) : x; }

// [C] times and plus, along dimension 1 of y.
Tensor scaled_per_channel(Tensor y, const Tensor& weight, const Tensor& bias) {
  Dims shape = Dims::filled(y.dim(), 1);
  shape[1] = y.size(1);
  if (weight.defined()) y = y * reshape(widened(weight), shape);
  return bias.defined() ? y + reshape(widened(bias), shape) : y;
}
void check_channels(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(x.dim() >= 2, name, ": x needs the shape [N, C, ...], got ", x);
  check(x.is_floating(), name, ": needs a floating dtype, got ", x);
  const Dims channels{x.size(1)};
  check(!weight.defined() || weight.sizes() == channels, name, ": weight has shape ", weight, ", expected ", channels);
  check(!bias.defined() || bias.sizes() == channels, name, ": bias has shape ", bias, ", expected ", channels);
}
// Of the dtype it is computed in: halves are widened to f32. (PyTorch documents that of x's dtype and takes this one.)
double epsilon_of(Dtype t) {
  return t == f64 ? std::numeric_limits<double>::epsilon() : static_cast<double>(std::numeric_limits<float>::epsilon());
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  check_channels("group_norm", x, weight, bias);
  check(groups >= 1 && x.size(1) % groups == 0, "group_norm: ", x.size(1), " channels do not divide into ", groups, " groups");
  check(x.numel() == 0 || x.numel() / groups > 1, "group_norm: needs more than one value per channel, got ", x);
  const Composite in("group_norm", CastPolicy::f32_inside, {&x, &weight, &bias});
  if (x.numel() == 0) return in.result(clone(in[0]));
  const std::int64_t row = x.numel() / x.size(0) / groups;
  const Tensor hat = layer_norm(reshape(widened(in[0]), {x.size(0), groups, row}), {row}, {}, {}, eps);
  return in.result(cast(scaled_per_channel(reshape(hat, x.sizes()), in[1], in[2]), in[0].dtype()));
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                     const Tensor& bias, bool use_input_stats, double momentum, double eps) {
  check_channels("instance_norm", x, weight, bias);
  const Composite in("instance_norm", CastPolicy::f32_inside, {&x, &weight, &bias});
  if (!use_input_stats) return in.result(batch_norm(in[0], in[1], in[2], running_mean, running_var, false, momentum, eps));
  const std::int64_t n = x.size(0), channels = x.size(1);
  if (x.numel() == 0) return in.result(clone(in[0]));
  const std::int64_t area = x.numel() / n / channels;
  check(area > 1, "instance_norm: needs more than one value per channel and sample, got ", x);
  Tensor mean = running_mean.defined() ? repeat(running_mean, {n}) : Tensor();
  Tensor var = running_var.defined() ? repeat(running_var, {n}) : Tensor();
  const Tensor hat = batch_norm(reshape(widened(in[0]), {1, n * channels, area}), {}, {}, mean, var, true, momentum, eps);
  for (const auto& [running, each] : {std::pair(running_mean, mean), std::pair(running_var, var)}) {
    if (!running.defined()) continue;
    Tensor target = running;
    target.copy_(mantissa::mean(reshape(each, {n, channels}), {0}));  // the average over samples
  }
  return in.result(cast(scaled_per_channel(reshape(hat, x.sizes()), in[1], in[2]), in[0].dtype()));
}

Tensor rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight, std::optional<double> eps) {
  const int n = normalized_shape.rank(), first = x.dim() - n;
  check(x.is_floating(), "rms_norm: needs a floating dtype, got ", x);
  check(n > 0, "rms_norm: normalized_shape is empty");
  Dims over, end;
  for (int d = first < 0 ? x.dim() : first; d < x.dim(); ++d) over.push_back(d), end.push_back(x.sizes()[d]);
  check(end == normalized_shape, "rms_norm: normalized_shape ", normalized_shape, " is not the end of x's shape ", x.sizes());
  check(!weight.defined() || weight.sizes() == normalized_shape, "rms_norm: weight is ", weight, ", expected ", normalized_shape);
  const Composite in("rms_norm", CastPolicy::f32_inside, {&x, &weight});
  const Tensor wide = widened(in[0]);
  const Tensor y = wide * rsqrt(mean(wide * wide, over, true) + eps.value_or(epsilon_of(in[0].dtype())));
  return in.result(cast(weight.defined() ? y * widened(in[1]) : y, in[0].dtype()));
}

Tensor local_response_norm(const Tensor& x, int size, double alpha, double beta, double k) {
  check(x.dim() >= 3, "local_response_norm: x needs the shape [N, C, ...], got ", x);
  check(size >= 1, "local_response_norm: size must be at least 1, got ", size);
  const Composite in("local_response_norm", CastPolicy::f32_inside, {&x});
  if (x.numel() == 0) return in.result(clone(in[0]));
  const Tensor wide = widened(in[0]);
  const Tensor planes = reshape(wide * wide, {x.size(0), 1, x.size(1), x.numel() / x.size(0) / x.size(1)});
  const Tensor padded = pad(planes, {0, 0, size / 2, (size - 1) / 2});
  const Tensor average = avg_pool2d(padded, {size, 1}, {.stride = {1, 1}});
  return in.result(cast(wide / pow(reshape(average, x.sizes()) * alpha + k, beta), in[0].dtype()));
}

namespace {

using F = Tensor (*)(const Tensors&);
void add(Samples& s, Tensors inputs, F f) { s.call(std::move(inputs), [f](const Tensors& x) { return Tensors{f(x)}; }); }
void refuse(Samples& s, Tensors inputs, F f, const char* fragment) {
  s.error_call(std::move(inputs), [f](const Tensors& x) { return Tensors{f(x)}; }, fragment);
}

void group_norm_samples(Samples& s) {
  const F two = [](const Tensors& x) { return group_norm(x[0], 2, x[1], x[2]); };
  add(s, {s.randn({2, 4, 3, 2}), s.randn({4}), s.randn({4})}, two);
  add(s, {s.randn({2, 6}), s.randn({6}), Tensor()}, two);
  add(s, {s.randn({3, 4, 5})}, [](const Tensors& x) { return group_norm(x[0], 1, {}, {}, 1e-3); });
  add(s, {s.randn({0, 4, 5}), s.randn({4}), s.randn({4})}, two);
  refuse(s, {s.randn({2, 3, 4}), Tensor(), Tensor()}, two, "3 channels do not divide into 2 groups");
  refuse(s, {s.randn({2, 4, 4}), s.randn({3}), Tensor()}, two, "weight has shape");
  refuse(s, {s.randn({1, 2}), Tensor(), Tensor()}, two, "needs more than one value per channel");
  refuse(s, {s.randn({4}), Tensor(), Tensor()}, two, "x needs the shape [N, C, ...]");
}
void instance_norm_samples(Samples& s) {
  const F by_input = [](const Tensors& x) { return instance_norm(x[0], {}, {}, x[1], x[2]); };
  add(s, {s.randn({2, 3, 4, 2}), s.randn({3}), s.randn({3})}, by_input);
  add(s, {s.randn({2, 3, 5}), Tensor(), Tensor()}, by_input);
  add(s, {s.randn({2, 3, 5}), s.randn({3}), s.randn({3}), s.randn({3}), s.uniform({3}, 0.5, 2)},
      [](const Tensors& x) { return instance_norm(x[0], x[3], x[4], x[1], x[2], false); });
  refuse(s, {s.randn({2, 3, 1}), Tensor(), Tensor()}, by_input, "more than one value per channel and sample");
}
void rms_norm_samples(Samples& s) {
  const F last = [](const Tensors& x) { return rms_norm(x[0], {x[0].size(-1)}, x[1], 1e-6); };
  add(s, {s.randn({3, 5}), s.randn({5})}, last);
  add(s, {s.randn({2, 3, 40}), Tensor()}, last);
  add(s, {s.randn({2, 3, 4}), s.randn({3, 4})}, [](const Tensors& x) { return rms_norm(x[0], {3, 4}, x[1], 1e-5); });
  refuse(s, {s.randn({3, 5}), s.randn({4})}, last, "expected [5]");
  refuse(s, {s.randn({3, 5})}, [](const Tensors& x) { return rms_norm(x[0], {4}); }, "normalized_shape [4] is not the end of x's shape [3, 5]");
}
void local_response_norm_samples(Samples& s) {
  add(s, {s.randn({2, 5, 3})}, [](const Tensors& x) { return local_response_norm(x[0], 3, 0.5, 0.75, 2); });
  add(s, {s.randn({2, 4, 2, 2})}, [](const Tensors& x) { return local_response_norm(x[0], 2); });
  refuse(s, {s.randn({2, 4})}, [](const Tensors& x) { return local_response_norm(x[0], 2); }, "x needs the shape [N, C, ...]");
}
MANTISSA_COMPOSITE(group_norm, group_norm_samples, .autocast = CastPolicy::f32_inside, .has_policy = true)
MANTISSA_COMPOSITE(instance_norm, instance_norm_samples, .autocast = CastPolicy::f32_inside, .has_policy = true, .constants = 0b11000)
MANTISSA_COMPOSITE(rms_norm, rms_norm_samples, .autocast = CastPolicy::f32_inside, .has_policy = true)
MANTISSA_COMPOSITE(local_response_norm, local_response_norm_samples, .autocast = CastPolicy::f32_inside, .has_policy = true)

}  // namespace
}  // namespace mantissa
