// layer_norm, and rms_norm (Zhang and Sennrich, 2019), which does not subtract the mean. The first result is the
// normalized tensor; the others are the mean and 1 / standard deviation, kept for backward in the dtype that the kernel
// computes in.
#include "ops/norm.h"

#include "core/norm.h"

namespace mantissa {

namespace {

Dims last_dims(int n) {
  Dims d;
  for (int i = -n; i < 0; ++i) d.push_back(i);
  return d;
}
Dims first_dims(int n) {
  Dims d;
  for (int i = 0; i < n; ++i) d.push_back(i);
  return d;
}
Tensor plus(const Tensor& x, const Tensor& maybe) { return maybe.defined() ? x + maybe : x; }
Tensor sum_leading(const Tensor& x, int n) { return n > 0 ? sum(x, first_dims(n)) : x; }
void check_arrived(const Tensor& arrived, const Tensor& x) {
  if (!arrived.defined()) return;
  check(arrived.sizes() == x.sizes() && arrived.dtype() == x.dtype(), "arrived is ", arrived, ", expected ", x);
}

// Memory for the gradient of x in `also`'s dtype; undefined while gradients are recorded.
Tensor memory_for(const std::shared_ptr<RoundedGradient>& also, const Tensor& x) {
  return also && !grad_enabled() ? Tensor::allocate(x.sizes(), also->dtype, x.device()) : Tensor();
}
void hand_on(const std::shared_ptr<RoundedGradient>& also, const Tensor& gradient, const Tensor& rounded) {
  if (rounded.defined()) also->gradient = gradient, also->rounded = rounded;
}

// Results dx, dweight, dbias. `arrived`, if defined, is added to dx.
struct LayerNormBackward {
  static constexpr auto name = "layer_norm_backward";
  static constexpr bool halves = false;  // mean and inv_std are never f16 or bf16
  static constexpr const char* args[] = {"gradient", "x", "weight", "mean", "inv_std", "arrived"};
  int normalised = 1;  // trailing dims
  double eps = 1e-5;
  Tensor rounded = {};  // dx in a second dtype

  std::array<Spec, 3> infer(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                            const Tensor& inv_std, const Tensor& arrived) const {
    check(x.dim() >= normalised, "x has fewer than ", normalised, " dimensions");
    check_sizes(g, "gradient", x.sizes());
    check_parameter(weight, "the weight", trailing(x.sizes(), normalised));
    check_sizes(mean, "mean", leading(x.sizes(), normalised));
    check_sizes(inv_std, "inv_std", leading(x.sizes(), normalised));
    check_arrived(arrived, x);
    const Spec parameter{trailing(x.sizes(), normalised), compute_dtype(x.dtype()), x.device()};
    return {like(x), parameter, parameter};
  }
  void run(const std::array<View, 3>& y, const View& g, const View& x, const View& weight, const View& mean,
           const View& inv_std, const View& arrived) const {
    kernels::row_norm_backward(
        x.device, RowNormGradient{y[0], y[1], y[2], g, x, weight, mean, inv_std, arrived, rounded.view()});
  }
  // mean and inv_std depend on x, so they are recomputed from it here.
  static std::array<Tensor, 3> reference(const LayerNormBackward& op, const Tensor& gradient, const Tensor& x,
                                         const Tensor& weight, const Tensor&, const Tensor&,
                                         const Tensor& arrived) {
    const Tensor g = cast(gradient, x.dtype());
    const Dims over = last_dims(op.normalised);
    const Tensor inv_std = rsqrt(var(x, over, true, 0) + op.eps);
    const Tensor hat = (x - mean(x, over, true)) * inv_std;
    const Tensor u = weight.defined() ? g * weight : g;
    const Tensor dx = inv_std * (u - mean(u, over, true) - hat * mean(u * hat, over, true));
    const int rows = x.dim() - op.normalised;
    return {plus(dx, arrived), sum_leading(g * hat, rows), sum_leading(g, rows)};
  }
  static void samples(Samples& s);
};

struct LayerNorm {
  static constexpr auto name = "layer_norm";
  static constexpr const char* args[] = {"x", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::f32_inside;
  Dims shape;
  double eps = 1e-5;
  std::optional<Dtype> result = {};  // default: x's
  std::shared_ptr<RoundedGradient> also = {};

  std::array<Spec, 3> infer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    check_end(x, shape);
    check_parameter(weight, "weight", shape);
    check_parameter(bias, "bias", shape);
    const Spec statistic{leading(x.sizes(), shape.rank()), compute_dtype(x.dtype()), x.device()};
    return {like(x, result.value_or(x.dtype())), statistic, statistic};
  }
  void run(const std::array<View, 3>& y, const View& x, const View& weight, const View& bias) const {
    const View none{};
    kernels::row_norm(x.device, RowNorm{y[0], y[1], y[2], none, x, none, weight, bias, numel_of(shape), eps});
  }
  static constexpr auto vjp() {
    return joint([](const LayerNorm& op, Grad g, Arrived arrived, In<0> x, In<1> weight, Out<1> mean, Out<2> inv_std) {
      const LayerNormBackward backward{op.shape.rank(), op.eps, memory_for(op.also, x)};
      const auto d = apply_over({&arrived, &g}, backward, g, x, weight, mean, inv_std, arrived);
      hand_on(op.also, d[0], backward.rounded);
      return d;
    });
  }
  static std::array<Tensor, 3> reference(const LayerNorm& op, const Tensor& x, const Tensor& weight,
                                         const Tensor& bias) {
    const Dims over = last_dims(op.shape.rank()), rows = leading(x.sizes(), op.shape.rank());
    const Tensor m = mean(x, over, true), inv_std = rsqrt(var(x, over, true, 0) + op.eps);
    const Tensor y = cast(scaled((x - m) * inv_std, weight, bias), op.result.value_or(x.dtype()));
    return {y, reshape(m, rows), reshape(inv_std, rows)};
  }
  void onnx(OnnxCall& c) const {  // computed in f32, or f64
    const Dtype dtype = compute_dtype(c.x(0).dtype());
    const OnnxId weight = c.has(1) ? c.in(1, dtype) : c.filled(1, shape, dtype);
    const OnnxId y = c.node("LayerNormalization", {c.in(0, dtype), weight, c.in(2, dtype)},
                            {{"axis", -shape.rank()}, {"epsilon", eps}});
    c.result(c.y().dtype() == dtype ? y : c.cast(y, c.y().dtype()));
  }
  static void samples(Samples& s);
};

void LayerNorm::samples(Samples& s) {
  const Tensor none;
  s({s.randn({4, 5}), s.randn({5}), s.randn({5})}, LayerNorm{{5}});
  s({s.randn({2, 3, 4}), s.randn({3, 4}), s.randn({3, 4})}, LayerNorm{{3, 4}});
  s({s.randn({3, 37}), none, none}, LayerNorm{{37}});
  s({s.randn({3, 6}), s.randn({6}), none}, LayerNorm{{6}, 1e-3});
  s({s.randn({3, 6}), none, s.randn({6})}, LayerNorm{{6}});
  s({s.randn({40, 600}), s.randn({600}), s.randn({600})}, LayerNorm{{600}});
  s({s.randn({7}), s.randn({7}), s.randn({7})}, LayerNorm{{7}});
  s({s.randn({0, 3}), s.randn({3}), s.randn({3})}, LayerNorm{{3}});
  s.error({s.randn({2, 3}), none, none}, LayerNorm{{4}}, "normalized_shape [4] is not the end of x's shape [2, 3]");
  s.error({s.randn({2, 3}), none, none}, LayerNorm{}, "normalized_shape is empty");
  s.error({s.randn({2, 3}), s.randn({2}), none}, LayerNorm{{3}}, "weight has shape [2], expected [3]");
  s.error({s.integers({2, 3}, 0, 5), none, none}, LayerNorm{{3}}, "needs a floating dtype");
}
// The saved statistics are recomputed from x in every call, so that they follow changes of x.
void LayerNormBackward::samples(Samples& s) {
  const Dims sizes{5, 3, 4};
  for (const bool weighted : {true, false}) {
    for (int normalised : {1, 2}) {
      const LayerNormBackward op{normalised};
      s.call({s.randn(sizes), s.randn(sizes), weighted ? s.randn(trailing(sizes, normalised)) : Tensor(),
              weighted ? Tensor() : s.randn(sizes)},
             [=](const Tensors& x) {
               const LayerNorm norm{trailing(x[1].sizes(), normalised), op.eps};
               const auto y = apply(norm, x[1].detach(), Tensor(), Tensor());
               return Samples::list(apply(op, x[0], x[1], x[2], y[1], y[2], x[3]));
             },
             [=](const Tensors& x) { return Samples::list(reference(op, x[0], x[1], x[2], {}, {}, x[3])); });
    }
  }
}

// Results dx, dweight. `arrived` as above.
struct RmsNormBackward {
  static constexpr auto name = "rms_norm_backward";
  static constexpr bool halves = false;  // inv_rms is never f16 or bf16
  static constexpr const char* args[] = {"gradient", "x", "weight", "inv_rms", "arrived"};
  int normalised = 1;  // trailing dims
  double eps = 1e-5;
  Tensor rounded = {};  // dx in a second dtype

  std::array<Spec, 2> infer(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& inv_rms,
                            const Tensor& arrived) const {
    check(x.dim() >= normalised, "x has fewer than ", normalised, " dimensions");
    check_sizes(g, "gradient", x.sizes());
    check_parameter(weight, "the weight", trailing(x.sizes(), normalised));
    check_sizes(inv_rms, "inv_rms", leading(x.sizes(), normalised));
    check_arrived(arrived, x);
    return {like(x), Spec{trailing(x.sizes(), normalised), compute_dtype(x.dtype()), x.device()}};
  }
  void run(const std::array<View, 2>& y, const View& g, const View& x, const View& weight, const View& inv_rms,
           const View& arrived) const {
    const View none{};
    kernels::row_norm_backward(
        x.device, RowNormGradient{y[0], y[1], none, g, x, weight, none, inv_rms, arrived, rounded.view()});
  }
  // inv_rms depends on x, so it is recomputed from it here.
  static std::array<Tensor, 2> reference(const RmsNormBackward& op, const Tensor& gradient, const Tensor& x,
                                         const Tensor& weight, const Tensor&, const Tensor& arrived) {
    const Tensor g = cast(gradient, x.dtype());
    const Dims over = last_dims(op.normalised);
    const Tensor inv_rms = rsqrt(mean(x * x, over, true) + op.eps), hat = x * inv_rms;
    const Tensor u = weight.defined() ? g * weight : g;
    const Tensor dx = inv_rms * (u - hat * mean(u * hat, over, true));
    return {plus(dx, arrived), sum_leading(g * hat, x.dim() - op.normalised)};
  }
  static void samples(Samples& s);
};

struct RmsNorm {
  static constexpr auto name = "rms_norm";
  static constexpr const char* args[] = {"x", "weight"};
  static constexpr auto autocast = CastPolicy::f32_inside;
  Dims shape;
  std::optional<double> eps = {};    // default: epsilon of the dtype x is computed in
  std::optional<Dtype> result = {};  // default: x's
  std::shared_ptr<RoundedGradient> also = {};
  double eps_for(Dtype x) const { return eps.value_or(epsilon_of(x)); }

  std::array<Spec, 2> infer(const Tensor& x, const Tensor& weight) const {
    check_end(x, shape);
    check_parameter(weight, "weight", shape);
    return {like(x, result.value_or(x.dtype())),
            Spec{leading(x.sizes(), shape.rank()), compute_dtype(x.dtype()), x.device()}};
  }
  void run(const std::array<View, 2>& y, const View& x, const View& weight) const {
    const View none{};
    kernels::row_norm(x.device,
                      RowNorm{y[0], none, y[1], none, x, none, weight, none, numel_of(shape), eps_for(x.dtype)});
  }
  static constexpr auto vjp() {
    return joint([](const RmsNorm& op, Grad g, Arrived arrived, In<0> x, In<1> weight, Out<1> inv_rms) {
      const RmsNormBackward backward{op.shape.rank(), op.eps_for(x.dtype()), memory_for(op.also, x)};
      const auto d = apply_over({&arrived, &g}, backward, g, x, weight, inv_rms, arrived);
      hand_on(op.also, d[0], backward.rounded);
      return d;
    });
  }
  static std::array<Tensor, 2> reference(const RmsNorm& op, const Tensor& x, const Tensor& weight) {
    const Tensor inv_rms = rsqrt(mean(x * x, last_dims(op.shape.rank()), true) + op.eps_for(x.dtype()));
    return {cast(scaled(x * inv_rms, weight, {}), op.result.value_or(x.dtype())),
            reshape(inv_rms, leading(x.sizes(), op.shape.rank()))};
  }
  static void samples(Samples& s);
};

void RmsNorm::samples(Samples& s) {
  const Tensor none;
  s({s.randn({3, 5}), s.randn({5})}, RmsNorm{{5}, 1e-6});
  s({s.randn({2, 3, 40}), none}, RmsNorm{{40}, 1e-6});
  s({s.randn({2, 3, 4}), s.randn({3, 4})}, RmsNorm{{3, 4}, 1e-5});
  s({s.randn({40, 600}), s.randn({600})}, RmsNorm{{600}, 1e-5});
  s({s.randn({7}), s.randn({7})}, RmsNorm{{7}, 1e-5});
  s({s.randn({0, 3}), s.randn({3})}, RmsNorm{{3}, 1e-5});
  s.error({s.randn({3, 5}), s.randn({4})}, RmsNorm{{5}}, "weight has shape [4], expected [5]");
  s.error({s.randn({3, 5}), none}, RmsNorm{{4}}, "normalized_shape [4] is not the end of x's shape [3, 5]");
  s.error({s.randn({3, 5}), none}, RmsNorm{}, "normalized_shape is empty");
  s.error({s.integers({2, 3}, 0, 5), none}, RmsNorm{{3}}, "needs a floating dtype");
}
void RmsNormBackward::samples(Samples& s) {
  const Dims sizes{5, 3, 4};
  for (const bool weighted : {true, false}) {
    for (int normalised : {1, 2}) {
      const RmsNormBackward op{normalised};
      s.call({s.randn(sizes), s.randn(sizes), weighted ? s.randn(trailing(sizes, normalised)) : Tensor(),
              weighted ? Tensor() : s.randn(sizes)},
             [=](const Tensors& x) {
               const auto y = apply(RmsNorm{trailing(x[1].sizes(), normalised), op.eps}, x[1].detach(), Tensor());
               return Samples::list(apply(op, x[0], x[1], x[2], y[1], x[3]));
             },
             [=](const Tensors& x) { return Samples::list(reference(op, x[0], x[1], x[2], {}, x[3])); });
    }
  }
}
}  // namespace

MANTISSA_OP(LayerNorm)
MANTISSA_OP(LayerNormBackward)
MANTISSA_OP(RmsNorm)
MANTISSA_OP(RmsNormBackward)

autograd::NodeRef layer_norm_node(const Dims& shape, double eps, const Tensor& x, const Tensor& weight,
                                  const Tensor& bias, std::span<const Tensor> results,
                                  std::shared_ptr<RoundedGradient> also) {
  const Tensor* inputs[] = {&x, &weight, &bias};
  const LayerNorm op{shape, eps, {}, std::move(also)};
  return autograd::NodeRef(new autograd::OpNode<LayerNorm, 3, 3>(op, inputs, results));
}
autograd::NodeRef rms_norm_node(const Dims& shape, double eps, const Tensor& x, const Tensor& weight,
                                std::span<const Tensor> results, std::shared_ptr<RoundedGradient> also) {
  const Tensor* inputs[] = {&x, &weight};
  const RmsNorm op{shape, eps, {}, std::move(also)};
  return autograd::NodeRef(new autograd::OpNode<RmsNorm, 2, 2>(op, inputs, results));
}
Tensor layer_norm_as(std::optional<Dtype> dtype, const Tensor& x, const Dims& shape, const Tensor& weight,
                     const Tensor& bias, double eps) {
  return apply(LayerNorm{shape, eps, dtype}, x, weight, bias)[0];
}
Tensor rms_norm_as(std::optional<Dtype> dtype, const Tensor& x, const Dims& shape, const Tensor& weight,
                   std::optional<double> eps) {
  return apply(RmsNorm{shape, eps, dtype}, x, weight)[0];
}

Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight, const Tensor& bias, double eps) {
  return apply(LayerNorm{normalized_shape, eps}, x, weight, bias)[0];
}
Tensor rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight, std::optional<double> eps) {
  return apply(RmsNorm{normalized_shape, eps}, x, weight)[0];
}
}  // namespace mantissa
