// group_norm (Wu and He, 2018), and functions composed of it and batch_norm: instance_norm (Ulyanov et al., 2016) and
// local_response_norm (Krizhevsky et al., 2012). The other results of group_norm are the mean and 1 / standard
// deviation of each group [N, groups], kept for backward in the dtype that the kernel computes in.
#include <algorithm>

#include "autograd/grad_mode.h"
#include "core/norm.h"
#include "ops/compose.h"
#include "ops/norm.h"

namespace mantissa {
namespace {

// One value per channel, shaped to broadcast with x.
Tensor per_channel(const Tensor& t, const Tensor& x) {
  if (!t.defined()) return t;
  Dims shape = Dims::filled(x.dim(), 1);
  shape[1] = x.size(1);
  return reshape(t, shape);
}
Tensor in_groups(const Tensor& x, std::int64_t groups) { return reshape(x, {x.size(0), groups, -1}); }
Tensor sum_over_all_but_channels(const Tensor& x) {
  Dims over{0};
  for (int d = 2; d < x.dim(); ++d) over.push_back(d);
  return sum(x, over);
}
// [N, groups], or [0, groups] for an empty x.
Dims statistic_sizes(const Tensor& x, std::int64_t groups) { return {x.numel() > 0 ? x.size(0) : 0, groups}; }
void check_images(const Tensor& x) { check(x.dim() >= 2, "x needs the shape [N, C, ...], got ", x.sizes()); }

// Results dx, dweight, dbias.
struct GroupNormBackward {
  static constexpr auto name = "group_norm_backward";
  static constexpr bool halves = false;  // mean and inv_std are never f16 or bf16
  static constexpr const char* args[] = {"gradient", "x", "weight", "mean", "inv_std"};
  std::int64_t groups = 1;
  double eps = 1e-5;

  std::array<Spec, 3> infer(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                            const Tensor& inv_std) const {
    check_images(x);
    check_sizes(g, "gradient", x.sizes());
    check_parameter(weight, "the weight", {x.size(1)});
    check_sizes(mean, "mean", statistic_sizes(x, groups));
    check_sizes(inv_std, "inv_std", statistic_sizes(x, groups));
    const Spec parameter{{x.size(1)}, compute_dtype(x.dtype()), x.device()};
    return {like_layout(x), parameter, parameter};
  }
  void run(const std::array<View, 3>& y, const View& g, const View& x, const View& weight, const View& mean,
           const View& inv_std) const {
    kernels::group_norm_backward(x.device, y[0], y[1], y[2], g, x, weight, mean, inv_std);
  }
  // mean and inv_std depend on x, so they are recomputed from it here.
  static std::array<Tensor, 3> reference(const GroupNormBackward& op, const Tensor& g, const Tensor& x,
                                         const Tensor& weight, const Tensor&, const Tensor&) {
    if (x.numel() == 0) return {clone(g), sum_over_all_but_channels(g * x), sum_over_all_but_channels(g)};
    const Tensor rows = in_groups(x, op.groups), inv_std = rsqrt(var(rows, {2}, true, 0) + op.eps);
    const Tensor hat = (rows - mean(rows, {2}, true)) * inv_std;
    const Tensor u = in_groups(weight.defined() ? g * per_channel(weight, x) : g, op.groups);
    const Tensor dx = inv_std * (u - mean(u, {2}, true) - hat * mean(u * hat, {2}, true));
    return {reshape(dx, x.sizes()), sum_over_all_but_channels(g * reshape(hat, x.sizes())),
            sum_over_all_but_channels(g)};
  }
  static void samples(Samples& s);
};

struct GroupNorm {
  static constexpr auto name = "group_norm";
  static constexpr const char* args[] = {"x", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::f32_inside;
  std::int64_t groups = 1;
  double eps = 1e-5;

  std::array<Spec, 3> infer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    check_images(x);
    check_floating(x);
    check_parameter(weight, "weight", {x.size(1)});
    check_parameter(bias, "bias", {x.size(1)});
    check(groups >= 1 && x.size(1) % groups == 0, x.size(1), " channels do not divide into ", groups, " groups");
    check(x.numel() == 0 || x.numel() / groups > 1, "needs more than one value per channel");
    const Spec statistic{statistic_sizes(x, groups), compute_dtype(x.dtype()), x.device()};
    return {like_layout(x), statistic, statistic};
  }
  void run(const std::array<View, 3>& y, const View& x, const View& weight, const View& bias) const {
    kernels::group_norm(x.device, y[0], y[1], y[2], x, weight, bias, eps);
  }
  static constexpr auto vjp() {
    return joint([](const GroupNorm& op, Grad g, In<0> x, In<1> weight, Out<1> mean, Out<2> inv_std) {
      return apply(GroupNormBackward{op.groups, op.eps}, g, x, weight, mean, inv_std);
    });
  }
  static std::array<Tensor, 3> reference(const GroupNorm& op, const Tensor& x, const Tensor& weight,
                                         const Tensor& bias) {
    const Dims statistic = statistic_sizes(x, op.groups);
    const Tensor w = per_channel(weight, x), b = per_channel(bias, x);
    if (x.numel() == 0) {
      const Tensor none = zeros(statistic, {x.dtype(), x.device()});
      return {scaled(x, w, b), none, none};
    }
    const Tensor rows = in_groups(x, op.groups), m = mean(rows, {2}, true),
                 inv_std = rsqrt(var(rows, {2}, true, 0) + op.eps);
    return {scaled(reshape((rows - m) * inv_std, x.sizes()), w, b), reshape(m, statistic), reshape(inv_std, statistic)};
  }
  static void samples(Samples& s);
};

void GroupNorm::samples(Samples& s) {
  const Tensor none;
  s({s.randn({2, 4, 3, 2}), s.randn({4}), s.randn({4})}, GroupNorm{2});
  s({s.randn({2, 6, 4, 4}), s.randn({6}), s.randn({6})}, GroupNorm{3, 1e-3});  // planes that fill whole SIMD vectors
  s({s.randn({2, 6}), s.randn({6}), none}, GroupNorm{2});
  s({s.randn({3, 4, 5}), none, none}, GroupNorm{1, 1e-3});
  s({s.randn({2, 6, 40}), none, s.randn({6})}, GroupNorm{6});
  s({s.randn({1, 4, 10, 60}), s.randn({4}), s.randn({4})}, GroupNorm{2});
  s({s.randn({0, 4, 5}), s.randn({4}), s.randn({4})}, GroupNorm{2});
  s.error({s.randn({2, 3, 4}), none, none}, GroupNorm{2}, "3 channels do not divide into 2 groups");
  s.error({s.randn({2, 4, 4}), s.randn({3}), none}, GroupNorm{2}, "weight has shape [3], expected [4]");
  s.error({s.randn({1, 2}), none, none}, GroupNorm{2}, "needs more than one value per channel");
  s.error({s.randn({4}), none, none}, GroupNorm{2}, "x needs the shape [N, C, ...]");
  s.error({s.integers({2, 4, 3}, 0, 5), none, none}, GroupNorm{2}, "needs a floating dtype");
}
// The saved statistics are recomputed from x in every call, so that they follow changes of x.
void GroupNormBackward::samples(Samples& s) {
  for (const Dims& sizes : {Dims{3, 6, 2, 3}, Dims{3, 6}, Dims{2, 6, 8}}) {
    for (const bool weighted : {true, false}) {
      const GroupNormBackward op{weighted ? 2 : 3};
      s.call(
          {s.randn(sizes), s.randn(sizes), weighted ? s.randn({6}) : Tensor()},
          [=](const Tensors& x) {
            const auto y = apply(GroupNorm{op.groups, op.eps}, x[1].detach(), Tensor(), Tensor());
            return Samples::list(apply(op, x[0], x[1], x[2], y[1], y[2]));
          },
          [=](const Tensors& x) { return Samples::list(reference(op, x[0], x[1], x[2], {}, {})); });
    }
  }
}
MANTISSA_OP(GroupNorm)
MANTISSA_OP(GroupNormBackward)

Tensor widened(const Tensor& x) { return x.defined() && is_half(x.dtype()) ? cast(x, f32) : x; }

// running = (1 - momentum) * running + momentum * the mean over samples of batch [N, C].
void move_running(const Tensor& running, const Tensor& batch, double momentum) {
  if (!running.defined()) return;
  Tensor target = running;
  target.copy_(running * (1 - momentum) + mean(batch, {0}) * momentum);
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  return apply(GroupNorm{groups, eps}, x, weight, bias)[0];
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                     const Tensor& bias, bool use_input_stats, double momentum, double eps) {
  check(x.dim() >= 2, "instance_norm: x needs the shape [N, C, ...], got ", x);
  check(x.is_floating(), "instance_norm: needs a floating dtype, got ", x);
  const Dims parameter{x.size(1)};
  check(!weight.defined() || weight.sizes() == parameter, "instance_norm: weight has shape ", weight, ", expected ",
        parameter);
  check(!bias.defined() || bias.sizes() == parameter, "instance_norm: bias has shape ", bias, ", expected ", parameter);
  const Composite in("instance_norm", CastPolicy::f32_inside, {&x, &weight, &bias});
  if (!use_input_stats)
    return in.result(batch_norm(in[0], in[1], in[2], running_mean, running_var, false, momentum, eps));
  const std::int64_t n = x.size(0), channels = x.size(1), area = x.numel() / std::max<std::int64_t>(1, n * channels);
  check(x.numel() == 0 || area > 1, "instance_norm: needs more than one value per channel and sample, got ", x);
  const auto [y, mean, inv_std] = apply(GroupNorm{channels, eps}, in[0], in[1], in[2]);
  if (x.numel() > 0 && (running_mean.defined() || running_var.defined())) {
    const NoGrad off;
    move_running(running_mean, mean, momentum);
    const double unbiased = static_cast<double>(area) / static_cast<double>(area - 1);
    move_running(running_var, relu(square(1.0 / inv_std) - eps) * unbiased, momentum);
  }
  return in.result(y);
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

void instance_norm_samples(Samples& s) {
  const auto by_input = [](const Tensors& x) { return instance_norm(x[0], {}, {}, x[1], x[2]); };
  s.call({s.randn({2, 3, 4, 2}), s.randn({3}), s.randn({3})}, by_input);
  s.call({s.randn({2, 3, 5}), Tensor(), Tensor()}, by_input);
  s.call({s.randn({2, 3, 5}), s.randn({3}), s.randn({3}), s.randn({3}), s.uniform({3}, 0.5, 2)},
         [](const Tensors& x) { return instance_norm(x[0], x[3], x[4], x[1], x[2], false); });
  s.error_call({s.randn({2, 3, 1}), Tensor(), Tensor()}, by_input, "more than one value per channel and sample");
}
void local_response_norm_samples(Samples& s) {
  s.call({s.randn({2, 5, 3})}, [](const Tensors& x) { return local_response_norm(x[0], 3, 0.5, 0.75, 2); });
  s.call({s.randn({2, 4, 2, 2})}, [](const Tensors& x) { return local_response_norm(x[0], 2); });
  s.error_call(
      {s.randn({2, 4})}, [](const Tensors& x) { return local_response_norm(x[0], 2); },
      "x needs the shape [N, C, ...]");
}
MANTISSA_COMPOSITE(instance_norm, instance_norm_samples, .autocast = CastPolicy::f32_inside, .has_policy = true,
                   .constants = 0b11000)
MANTISSA_COMPOSITE(local_response_norm, local_response_norm_samples, .autocast = CastPolicy::f32_inside,
                   .has_policy = true)

}  // namespace
}  // namespace mantissa
