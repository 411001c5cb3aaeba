// layer_norm, and rms_norm (Zhang and Sennrich, 2019), which is the same around zero instead of the mean. The first result
// is the normalised tensor; the others are the mean and 1 / standard deviation, kept for the gradient in the type the
// kernel computes in.
#include <limits>

#include "ops/norm.h"

namespace mantissa {

MANTISSA_KERNEL(layer_norm, const View& y, const View& mean, const View& inv_std, const View& x,
                const View& weight, const View& bias, std::int64_t row, double eps)
MANTISSA_KERNEL(layer_norm_backward, const View& dx, const View& dweight, const View& dbias, const View& g,
                const View& x, const View& weight, const View& mean, const View& inv_std)
MANTISSA_KERNEL(rms_norm, const View& y, const View& inv_rms, const View& x, const View& weight, std::int64_t row, double eps)
MANTISSA_KERNEL(rms_norm_backward, const View& dx, const View& dweight, const View& g, const View& x, const View& weight,
                const View& inv_rms)

namespace {

Dims trailing(const Dims& sizes, int n) {
  check(n <= sizes.rank(), "x has fewer than ", n, " dimensions");
  Dims t;
  for (int i = sizes.rank() - n; i < sizes.rank(); ++i) t.push_back(sizes[i]);
  return t;
}
Dims leading(const Dims& sizes, int n) {  // all but the last n
  Dims t;
  for (int i = 0; i < sizes.rank() - n; ++i) t.push_back(sizes[i]);
  return t;
}
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
Tensor sum_leading(const Tensor& x, int n) { return n > 0 ? sum(x, first_dims(n)) : x; }
void check_end(const Tensor& x, const Dims& shape) {
  check_floating(x);
  check(!shape.empty(), "normalized_shape is empty; give the trailing dims to normalise");
  check(shape.rank() <= x.dim() && trailing(x.sizes(), shape.rank()) == shape, "normalized_shape ", shape,
        " is not the end of x's shape ", x.sizes());
}

// Results dx, dweight, dbias.
struct LayerNormBackward {
  static constexpr auto name = "layer_norm_backward";
  static constexpr bool halves = false;  // mean and inv_std never are
  static constexpr const char* args[] = {"gradient", "x", "weight", "mean", "inv_std"};
  int normalised = 1;  // trailing dims
  double eps = 1e-5;

  std::array<Spec, 3> infer(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& inv_std) const {
    check(x.dim() >= normalised, "x has fewer than ", normalised, " dimensions");
    check_sizes(g, "gradient", x.sizes());
    check_parameter(weight, "the weight", trailing(x.sizes(), normalised));
    check_sizes(mean, "mean", leading(x.sizes(), normalised));
    check_sizes(inv_std, "inv_std", leading(x.sizes(), normalised));
    const Spec parameter{trailing(x.sizes(), normalised), compute_dtype(x.dtype()), x.device()};
    return {like(x), parameter, parameter};
  }
  void run(const std::array<View, 3>& y, const View& g, const View& x, const View& weight, const View& mean,
           const View& inv_std) const {
    kernels::layer_norm_backward(x.device, y[0], y[1], y[2], g, x, weight, mean, inv_std);
  }
  // mean and inv_std depend on x: here they are made from it again.
  static std::array<Tensor, 3> reference(const LayerNormBackward& op, const Tensor& g, const Tensor& x,
                                         const Tensor& weight, const Tensor&, const Tensor&) {
    const Dims over = last_dims(op.normalised);
    const Tensor inv_std = rsqrt(var(x, over, true, 0) + op.eps);
    const Tensor hat = (x - mean(x, over, true)) * inv_std;
    const Tensor u = weight.defined() ? g * weight : g;
    const Tensor dx = inv_std * (u - mean(u, over, true) - hat * mean(u * hat, over, true));
    const int rows = x.dim() - op.normalised;
    return {dx, sum_leading(g * hat, rows), sum_leading(g, rows)};
  }
  static void samples(Samples& s);
};

struct LayerNorm {
  static constexpr auto name = "layer_norm";
  static constexpr const char* args[] = {"x", "weight", "bias"};
  static constexpr auto autocast = CastPolicy::f32_inside;
  Dims shape;
  double eps = 1e-5;

  std::array<Spec, 3> infer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    check_end(x, shape);
    check_parameter(weight, "weight", shape);
    check_parameter(bias, "bias", shape);
    const Spec statistic{leading(x.sizes(), shape.rank()), compute_dtype(x.dtype()), x.device()};
    return {like(x), statistic, statistic};
  }
  void run(const std::array<View, 3>& y, const View& x, const View& weight, const View& bias) const {
    kernels::layer_norm(x.device, y[0], y[1], y[2], x, weight, bias, numel_of(shape), eps);
  }
  static constexpr auto vjp() {
    return joint([](const LayerNorm& op, Grad g, In<0> x, In<1> weight, Out<1> mean, Out<2> inv_std) {
      return apply(LayerNormBackward{op.shape.rank(), op.eps}, g, x, weight, mean, inv_std);
    });
  }
  static std::array<Tensor, 3> reference(const LayerNorm& op, const Tensor& x, const Tensor& weight,
                                         const Tensor& bias) {
    const Dims over = last_dims(op.shape.rank()), rows = leading(x.sizes(), op.shape.rank());
    const Tensor m = mean(x, over, true), inv_std = rsqrt(var(x, over, true, 0) + op.eps);
    return {scaled((x - m) * inv_std, weight, bias), reshape(m, rows), reshape(inv_std, rows)};
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
// The saved statistics are made from x in every call, so that they change with x.
void LayerNormBackward::samples(Samples& s) {
  const Dims sizes{5, 3, 4};
  for (const bool weighted : {true, false}) {
    for (int normalised : {1, 2}) {
      const LayerNormBackward op{normalised};
      s.call({s.randn(sizes), s.randn(sizes), weighted ? s.randn(trailing(sizes, normalised)) : Tensor()},
             [=](const Tensors& x) {
               const auto y = apply(LayerNorm{trailing(x[1].sizes(), normalised), op.eps}, x[1].detach(), Tensor(), Tensor());
               return Samples::list(apply(op, x[0], x[1], x[2], y[1], y[2]));
             },
             [=](const Tensors& x) { return Samples::list(reference(op, x[0], x[1], x[2], {}, {})); });
    }
  }
}
// Results dx, dweight.
struct RmsNormBackward {
  static constexpr auto name = "rms_norm_backward";
  static constexpr bool halves = false;  // inv_rms never is
  static constexpr const char* args[] = {"gradient", "x", "weight", "inv_rms"};
  int normalised = 1;  // trailing dims
  double eps = 1e-5;

  std::array<Spec, 2> infer(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& inv_rms) const {
    check(x.dim() >= normalised, "x has fewer than ", normalised, " dimensions");
    check_sizes(g, "gradient", x.sizes());
    check_parameter(weight, "the weight", trailing(x.sizes(), normalised));
    check_sizes(inv_rms, "inv_rms", leading(x.sizes(), normalised));
    return {like(x), Spec{trailing(x.sizes(), normalised), compute_dtype(x.dtype()), x.device()}};
  }
  void run(const std::array<View, 2>& y, const View& g, const View& x, const View& weight, const View& inv_rms) const {
    kernels::rms_norm_backward(x.device, y[0], y[1], g, x, weight, inv_rms);
  }
  // inv_rms depends on x: here it is made from it again.
  static std::array<Tensor, 2> reference(const RmsNormBackward& op, const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor&) {
    const Dims over = last_dims(op.normalised);
    const Tensor inv_rms = rsqrt(mean(x * x, over, true) + op.eps), hat = x * inv_rms;
    const Tensor u = weight.defined() ? g * weight : g;
    return {inv_rms * (u - hat * mean(u * hat, over, true)), sum_leading(g * hat, x.dim() - op.normalised)};
  }
  static void samples(Samples& s);
};

// Of the dtype it is computed in: halves are widened to f32. (PyTorch documents that of x's dtype and takes this one.)
double epsilon_of(Dtype t) {
  return t == f64 ? std::numeric_limits<double>::epsilon() : static_cast<double>(std::numeric_limits<float>::epsilon());
}

struct RmsNorm {
  static constexpr auto name = "rms_norm";
  static constexpr const char* args[] = {"x", "weight"};
  static constexpr auto autocast = CastPolicy::f32_inside;
  Dims shape;
  std::optional<double> eps = {};  // that of the dtype x is computed in
  double eps_for(Dtype x) const { return eps.value_or(epsilon_of(x)); }

  std::array<Spec, 2> infer(const Tensor& x, const Tensor& weight) const {
    check_end(x, shape);
    check_parameter(weight, "weight", shape);
    return {like(x), Spec{leading(x.sizes(), shape.rank()), compute_dtype(x.dtype()), x.device()}};
  }
  void run(const std::array<View, 2>& y, const View& x, const View& weight) const {
    kernels::rms_norm(x.device, y[0], y[1], x, weight, numel_of(shape), eps_for(x.dtype));
  }
  static constexpr auto vjp() {
    return joint([](const RmsNorm& op, Grad g, In<0> x, In<1> weight, Out<1> inv_rms) {
      return apply(RmsNormBackward{op.shape.rank(), op.eps_for(x.dtype())}, g, x, weight, inv_rms);
    });
  }
  static std::array<Tensor, 2> reference(const RmsNorm& op, const Tensor& x, const Tensor& weight) {
    const Tensor inv_rms = rsqrt(mean(x * x, last_dims(op.shape.rank()), true) + op.eps_for(x.dtype()));
    return {scaled(x * inv_rms, weight, {}), reshape(inv_rms, leading(x.sizes(), op.shape.rank()))};
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
      s.call({s.randn(sizes), s.randn(sizes), weighted ? s.randn(trailing(sizes, normalised)) : Tensor()},
             [=](const Tensors& x) {
               const auto y = apply(RmsNorm{trailing(x[1].sizes(), normalised), op.eps}, x[1].detach(), Tensor());
               return Samples::list(apply(op, x[0], x[1], x[2], y[1]));
             },
             [=](const Tensors& x) { return Samples::list(reference(op, x[0], x[1], x[2], {})); });
    }
  }
}
}  // namespace

MANTISSA_OP(LayerNorm)
MANTISSA_OP(LayerNormBackward)
MANTISSA_OP(RmsNorm)
MANTISSA_OP(RmsNormBackward)

Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight, const Tensor& bias, double eps) {
  return apply(LayerNorm{normalized_shape, eps}, x, weight, bias)[0];
}
Tensor rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight, std::optional<double> eps) {
  return apply(RmsNorm{normalized_shape, eps}, x, weight)[0];
}
}  // namespace mantissa
