// add_layer_norm and add_rms_norm: x + delta and its layer_norm or rms_norm, in one kernel. Recorded as the two
// operators: the sum gets its own node, whose gradient goes to x and delta, and y gets the norm's.
#include <algorithm>

#include "amp/observe.h"
#include "core/fused_ops.h"
#include "core/norm.h"
#include "ops/norm.h"

namespace mantissa {
namespace {

// Results: sum, y, 1 / standard deviation, and the mean (empty for rms_norm).
template <bool centred> struct AddNorm {
  static constexpr auto name = centred ? "add_layer_norm" : "add_rms_norm";
  static constexpr bool halves = false;  // rounded twice, as by the two: tests/cuda_add_norm_test.cpp compares the bits
  static constexpr std::uint64_t constants = 0;  // weight and bias are inputs of the norm's node
  static constexpr const char* args[] = {"x", "delta", "weight", "bias"};
  Dims shape;
  double eps = 1e-5;
  std::optional<Dtype> result = {};  // dtype of y; default: the sum's
  std::shared_ptr<RoundedGradient> rounded = {};  // delta's gradient, made by the norm's rule

  std::array<Spec, 4> infer(const Tensor& x, const Tensor& delta, const Tensor& weight, const Tensor& bias) const {
    check_end(x, shape);
    check_floating(delta);
    check(delta.sizes() == x.sizes(), "delta has shape ", delta.sizes(), ", expected x's ", x.sizes());
    check_parameter(weight, "weight", shape);
    check_parameter(bias, "bias", shape);
    const Dtype dtype = promote(x.dtype(), delta.dtype());
    const Spec statistic{leading(x.sizes(), shape.rank()), compute_dtype(dtype), x.device()}, sum = like(x, dtype);
    return {sum, like(x, result.value_or(dtype)), statistic, centred ? statistic : like(x, Dims{0})};
  }
  void run(const std::array<View, 4>& y, const View& x, const View& delta, const View& weight, const View& bias) const {
    const View mean = centred ? y[3] : View();
    kernels::row_norm(x.device, RowNorm{y[1], mean, y[2], y[0], x, delta, weight, bias, numel_of(shape), eps});
  }
  static constexpr auto vjp() {
    return rules([](Grad g) -> Tensor { return g; },
                 [](const AddNorm& op, Grad g) -> Tensor { return op.rounded ? op.rounded->take(g) : g; }, no_gradient,
                 no_gradient);
  }
  static void samples(Samples& s);
};

// On a CPU the separate operators are faster for f16 and bf16: the fused kernel converts rows between the passes
// (docs/experiments.md).
bool one_by_one(const Tensor& x, const Tensor& delta) {
  const Context& c = context();
  if (x.defined() && delta.defined() && x.device().is_cpu() && is_half(promote(x.dtype(), delta.dtype()))) return true;
  return c.anomaly || c.autocast.overlay || (c.autocast.any() && amp::Observer::current());
}

// The dtype of y, if it differs from the sum's.
std::optional<Dtype> dtype_of_y(const Tensor& x, const Tensor& delta, NormDtype dtype) {
  const AutocastState& region = context().autocast;
  if (dtype == NormDtype::of_sum || !region.any() || region.overlay) return {};
  if (!x.defined() || !region.enabled_on(x.device())) return {};
  const Dtype sum = delta.defined() ? promote(x.dtype(), delta.dtype()) : x.dtype();
  return sum == f32 ? std::optional(region.dtype_on(x.device())) : std::nullopt;
}

// For when delta's gradient is a cast of the sum's. A leaf takes the f32 gradient.
std::shared_ptr<RoundedGradient> rounded_gradient(const Tensor& x, const Tensor& delta) {
  if (!context().grad_enabled || !delta.requires_grad() || delta.impl()->node->is_leaf()) return {};
  if (!is_half(delta.dtype()) || promote(x.dtype(), delta.dtype()) != f32) return {};
  return std::make_shared<RoundedGradient>(delta.dtype());
}

// The operator's sum, with a node only if x or delta needs a gradient.
Tensor sum_of(const Tensor& result, const Tensor& x, const Tensor& delta) {
  return x.requires_grad() || delta.requires_grad() ? result : result.detach();
}
bool records(std::initializer_list<const Tensor*> inputs) {
  return context().grad_enabled && std::ranges::any_of(inputs, [](const Tensor* t) { return t->requires_grad(); });
}

template <bool centred> void add_samples(Samples& s) {
  const auto add = [&](Tensors x, const Dims& shape, double eps = 1e-5) {
    const auto function = [=](const Tensors& t) {
      const SumAndNorm r = centred ? add_layer_norm(t[0], t[1], shape, t[2], t[3], eps)
                                   : add_rms_norm(t[0], t[1], shape, t[2], eps);
      return Tensors{r.sum, r.y};
    };
    const auto meaning = [=](const Tensors& t) {
      const Tensor sum = t[0] + t[1];
      return Tensors{sum, centred ? layer_norm(sum, shape, t[2], t[3], eps) : rms_norm(sum, shape, t[2], eps)};
    };
    if (!centred) x.pop_back();  // there is no bias
    s.call(std::move(x), function, meaning);
  };
  const Tensor none;
  for (const Dims& sizes : {Dims{4, 5}, Dims{2, 3, 40}, Dims{3, 37}, Dims{40, 600}, Dims{7}, Dims{0, 3}}) {
    const Dims last{sizes.back()};
    add({s.randn(sizes), s.randn(sizes), s.randn(last), s.randn(last)}, last);
  }
  add({s.randn({2, 3, 4}), s.randn({2, 3, 4}), s.randn({3, 4}), none}, {3, 4}, 1e-3);
  add({s.randn({3, 6}), s.randn({3, 6}), none, s.randn({6})}, {6});
  add({s.randn({3, 6}), s.randn({3, 6}), none, none}, {6});
  const AddNorm<centred> op{{3}};
  s.error({s.randn({2, 3}), s.randn({3}), none, none}, op, "delta has shape [3], expected x's [2, 3]");
  s.error({s.randn({2, 4}), s.randn({2, 4}), none, none}, op,
          "normalized_shape [3] is not the end of x's shape [2, 4]");
  s.error({s.randn({2, 3}), s.randn({2, 3}), s.randn({2}), none}, op, "weight has shape [2], expected [3]");
  s.error({s.randn({2, 3}), s.integers({2, 3}, 0, 5), none, none}, op, "needs a floating dtype");
}
template <bool centred> void AddNorm<centred>::samples(Samples& s) { add_samples<centred>(s); }

}  // namespace

MANTISSA_OP(AddNorm<true>)
MANTISSA_OP(AddNorm<false>)

SumAndNorm add_layer_norm(const Tensor& x, const Tensor& delta, const Dims& normalized_shape, const Tensor& weight,
                          const Tensor& bias, double eps, NormDtype dtype) {
  const std::optional<Dtype> as = dtype_of_y(x, delta, dtype);
  if (!delta.defined() || one_by_one(x, delta)) {
    const Tensor sum = delta.defined() ? add(x, delta) : x;
    return {sum, layer_norm_as(as, sum, normalized_shape, weight, bias, eps)};
  }
  const AddNorm<true> op{normalized_shape, eps, as, rounded_gradient(x, delta)};
  auto [result, y, inv_std, mean] = apply(op, x, delta, weight, bias);
  const Tensor sum = sum_of(result, x, delta);
  if (records({&sum, &weight, &bias}))
    y.impl()->node = layer_norm_node(normalized_shape, eps, sum, weight, bias, Tensors{y, mean, inv_std}, op.rounded);
  return {sum, y};
}

SumAndNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Dims& normalized_shape, const Tensor& weight,
                        std::optional<double> eps, NormDtype dtype) {
  const std::optional<Dtype> as = dtype_of_y(x, delta, dtype);
  if (!delta.defined() || one_by_one(x, delta)) {
    const Tensor sum = delta.defined() ? add(x, delta) : x;
    return {sum, rms_norm_as(as, sum, normalized_shape, weight, eps)};
  }
  const double e = eps.value_or(epsilon_of(promote(x.dtype(), delta.dtype())));
  const AddNorm<false> op{normalized_shape, e, as, rounded_gradient(x, delta)};
  auto [result, y, inv_rms, none] = apply(op, x, delta, weight, Tensor());
  const Tensor sum = sum_of(result, x, delta);
  if (records({&sum, &weight}))
    y.impl()->node = rms_norm_node(normalized_shape, e, sum, weight, Tensors{y, inv_rms}, op.rounded);
  return {sum, y};
}

}  // namespace mantissa
