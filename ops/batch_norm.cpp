// batch_norm, and batch_norm fused with an addition and relu. The first result is the normalized tensor; the others are
// the mean and 1 / standard deviation, kept for backward in the dtype that the kernel computes in.
#include "ops/batch_norm.h"

#include "core/batch_norm.h"
#include "ops/norm.h"

namespace mantissa {

MANTISSA_KERNEL(batch_norm, const BatchNormForward& f)
MANTISSA_KERNEL(batch_norm_backward, const BatchNormGradient& f)

namespace {

Dims all_but_channels(int rank) {
  Dims d{0};
  for (int i = 2; i < rank; ++i) d.push_back(i);
  return d;
}
// [C] shaped to broadcast with x [N, C, ...].
Tensor per_channel(const Tensor& t, const Tensor& x) {
  if (!t.defined()) return t;
  Dims shape = Dims::filled(x.dim(), 1);
  shape[1] = x.size(1);
  return reshape(t, shape);
}

// Results dx, dweight, dbias.
struct BatchNormBackward {
  static constexpr auto name = "batch_norm_backward";
  static constexpr bool halves = false;  // mean and inv_std are never f16 or bf16
  static constexpr const char* args[] = {"gradient", "x", "weight", "mean", "inv_std"};
  bool training = true;
  double eps = 1e-5;

  std::array<Spec, 3> infer(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                            const Tensor& inv_std) const {
    check(x.dim() >= 2, "x must have at least 2 dimensions");
    check_sizes(g, "gradient", x.sizes());
    check_parameter(weight, "the weight", {x.size(1)});
    check_sizes(mean, "mean", {x.size(1)});
    check_sizes(inv_std, "inv_std", {x.size(1)});
    const Spec parameter{{x.size(1)}, compute_dtype(x.dtype()), x.device()};
    return {like_layout(x), parameter, parameter};
  }
  void run(const std::array<View, 3>& y, const View& g, const View& x, const View& weight, const View& mean,
           const View& inv_std) const {
    kernels::batch_norm_backward(x.device, BatchNormGradient{y[0], y[1], y[2], View{}, g, x, weight, View{}, mean,
                                                             inv_std, View{}, training, false});
  }
  // In training mean and inv_std depend on x, so they are recomputed from it here.
  static std::array<Tensor, 3> reference(const BatchNormBackward& op, const Tensor& g, const Tensor& x,
                                         const Tensor& weight,
                                         const Tensor& saved_mean, const Tensor& saved_inv_std) {
    const Dims over = all_but_channels(x.dim());
    const Tensor m = op.training ? mean(x, over, true) : per_channel(saved_mean, x);
    const Tensor inv_std = op.training ? rsqrt(var(x, over, true, 0) + op.eps) : per_channel(saved_inv_std, x);
    const Tensor hat = (x - m) * inv_std;
    const Tensor scale = weight.defined() ? inv_std * per_channel(weight, x) : inv_std;
    const Tensor centred = op.training ? g - mean(g, over, true) - hat * mean(g * hat, over, true) : g;
    return {scale * centred, sum(g * hat, over), sum(g, over)};
  }
  static void samples(Samples& s);
};

struct BatchNorm {
  static constexpr auto name = "batch_norm";
  static constexpr bool mutates = true;                  // updates the running statistics,
  static constexpr std::uint64_t constants = 0b11000;  // which have no gradient
  static constexpr const char* args[] = {"x", "weight", "bias", "running_mean", "running_var"};
  bool training = true;
  double momentum = 0.1, eps = 1e-5;
  Tensor batches = {};  // i64 [], counts this batch; may be undefined

  std::array<Spec, 3> infer(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& running_mean, const Tensor& running_var) const {
    check_floating(x);
    check(x.dim() >= 2, "x needs the shape [N, C, ...], got ", x.sizes());
    const Dims channels{x.size(1)};
    check_parameter(weight, "weight", channels);
    check_parameter(bias, "bias", channels);
    check_parameter(running_mean, "running_mean", channels);
    check_parameter(running_var, "running_var", channels);
    check(!batches.defined() || (batches.dtype() == i64 && batches.numel() == 1 && batches.device() == x.device()),
          "num_batches_tracked must be one i64 on ", x.device(), ", got ", batches);
    if (training) {
      check(x.size(1) == 0 || x.numel() / x.size(1) != 1, "needs more than one value per channel in training, got ",
            x.sizes(), "; use a larger batch, or eval mode");
    } else {
      check(running_mean.defined() && running_var.defined(), "needs running_mean and running_var outside training");
    }
    const Spec statistic{channels, compute_dtype(x.dtype()), x.device()};
    return {like_layout(x), statistic, statistic};
  }
  void run(const std::array<View, 3>& y, const View& x, const View& weight, const View& bias,
           const View& running_mean, const View& running_var) const {
    run(y, x, weight, bias, View{}, running_mean, running_var, false);
  }
  void run(const std::array<View, 3>& y, const View& x, const View& weight, const View& bias, const View& z,
           const View& running_mean, const View& running_var, bool relu) const {
    const View count = batches.defined() ? batches.view() : View{};
    kernels::batch_norm(x.device, BatchNormForward{y[0], y[1], y[2], x, weight, bias, z, running_mean, running_var,
                                                   count, training, relu, momentum, eps});
  }
  // The running statistics are not saved: the next training step changes them.
  static constexpr auto vjp() {
    return joint([](const BatchNorm& op, Grad g, In<0> x, In<1> weight, Out<1> mean, Out<2> inv_std) {
      auto d = apply(BatchNormBackward{op.training, op.eps}, g, x, weight, mean, inv_std);
      return std::array<Tensor, 5>{d[0], d[1], d[2]};
    });
  }
  static std::array<Tensor, 3> reference(const BatchNorm& op, const Tensor& x, const Tensor& weight,
                                         const Tensor& bias,
                                         const Tensor& running_mean, const Tensor& running_var) {
    const Dims over = all_but_channels(x.dim()), channels{x.size(1)};
    const Tensor m = op.training ? mean(x, over, true) : per_channel(running_mean, x);
    const Tensor v = op.training ? var(x, over, true, 0) : per_channel(running_var, x);
    const Tensor inv_std = rsqrt(v + op.eps);
    return {scaled((x - m) * inv_std, per_channel(weight, x), per_channel(bias, x)), reshape(m, channels),
            reshape(inv_std, channels)};
  }
  void onnx(OnnxCall& c) const { c.result(written(c, 3)); }
  // `statistics`: index of the running_mean input; running_var is the next one.
  OnnxId written(OnnxCall& c, int statistics) const {
    if (training) c.refuse("it uses the batch's statistics; call nn::eval(net) first");
    const Dtype dtype = c.x(statistics).dtype();
    const Dims channels = c.x(statistics).sizes();
    const auto parameter = [&](int i, double otherwise) {
      return c.has(i) ? c.in(i, dtype) : c.filled(otherwise, channels, dtype);
    };
    const OnnxId y = c.node("BatchNormalization",
                            {c.in(0, dtype), parameter(1, 1), parameter(2, 0), c.in(statistics), c.in(statistics + 1)},
                            {{"epsilon", eps}});
    return c.y().dtype() == dtype ? y : c.cast(y, c.y().dtype());
  }
  static void samples(Samples& s);
};

// --- batch_norm_relu: y = max(0, batch_norm(x) + z) in one pass; z may be undefined ---
// Results dx, dweight, dbias and, with z, its gradient (empty otherwise). Without z the ReLU mask is recomputed from x,
// which is read anyway; with z it is taken from the result y.
struct BatchNormReluBackward {
  static constexpr auto name = "batch_norm_relu_backward";
  static constexpr bool halves = false;  // mean and inv_std are never f16 or bf16
  static constexpr const char* args[] = {"gradient", "x", "weight", "bias", "mean", "inv_std", "y"};
  bool training = true;
  double eps = 1e-5;

  std::array<Spec, 4> infer(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& y) const {
    const auto plain = BatchNormBackward{training, eps}.infer(g, x, weight, mean, inv_std);
    check_parameter(bias, "the bias", {x.size(1)});
    if (y.defined()) check_sizes(y, "result", x.sizes());
    return {plain[0], plain[1], plain[2], y.defined() ? plain[0] : like(x, Dims{0})};
  }
  void run(const std::array<View, 4>& d, const View& g, const View& x, const View& weight, const View& bias,
           const View& mean, const View& inv_std, const View& y) const {
    const View dz = y ? d[3] : View{};
    kernels::batch_norm_backward(
        x.device, BatchNormGradient{d[0], d[1], d[2], dz, g, x, weight, bias, mean, inv_std, y, training, true});
  }
  // Applies the ReLU mask to g, then the gradient of batch_norm.
  static std::array<Tensor, 4> reference(const BatchNormReluBackward& op, const Tensor& g, const Tensor& x,
                                         const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                         const Tensor& inv_std, const Tensor& y) {
    const Tensor value = y.defined() ? y
                                     : scaled((x - per_channel(mean, x)) * per_channel(inv_std, x),
                                              per_channel(weight, x), per_channel(bias, x));
    const Tensor u = where(value.detach() <= 0.0, Tensor(0.0), g);
    const auto d = apply(BatchNormBackward{op.training, op.eps}, u, x, weight, mean, inv_std);
    return {d[0], d[1], d[2], y.defined() ? u : zeros({0}, {.dtype = x.dtype(), .device = x.device()})};
  }
  static void samples(Samples& s);
};

struct BatchNormRelu {
  static constexpr auto name = "batch_norm_relu";
  static constexpr bool mutates = true;                   // updates the running statistics,
  static constexpr std::uint64_t constants = 0b110000;  // which have no gradient
  static constexpr const char* args[] = {"x", "weight", "bias", "z", "running_mean", "running_var"};
  BatchNorm norm;
  bool has_z = false;

  std::array<Spec, 3> infer(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& z,
                            const Tensor& running_mean, const Tensor& running_var) const {
    if (z.defined()) {
      check(z.sizes() == x.sizes() && z.dtype() == x.dtype(), "z is ", z, ", expected x's sizes and dtype, ", x);
    }
    return norm.infer(x, weight, bias, running_mean, running_var);
  }
  void run(const std::array<View, 3>& y, const View& x, const View& weight, const View& bias, const View& z,
           const View& running_mean, const View& running_var) const {
    norm.run(y, x, weight, bias, z, running_mean, running_var, true);
  }
  static constexpr auto vjp() {
    return joint(
        [](const BatchNormRelu& op, Grad g, In<0> x, In<1> weight, In<2> bias, Out<0> y, Out<1> mean, Out<2> inv_std) {
          auto d = apply(BatchNormReluBackward{op.norm.training, op.norm.eps}, g, x, weight, bias, mean, inv_std,
                         op.has_z ? Tensor(y) : Tensor());
          return std::array<Tensor, 6>{d[0], d[1], d[2], d[3]};
        });
  }
  static Tensor reference(const BatchNormRelu& op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Tensor& z, const Tensor& running_mean, const Tensor& running_var) {
    const Tensor y = BatchNorm::reference(op.norm, x, weight, bias, running_mean, running_var)[0];
    return relu(z.defined() ? y + z : y);
  }
  void onnx(OnnxCall& c) const {
    const OnnxId y = norm.written(c, 4);
    c.result(c.node("Relu", {c.has(3) ? c.node("Add", {y, c.in(3)}) : y}));
  }
  static void samples(Samples& s);
};
// --- samples ---
void BatchNorm::samples(Samples& s) {
  const Tensor none;
  s({s.randn({3, 4, 2, 3}), s.randn({4}), s.randn({4}), none, none}, BatchNorm{});
  s({s.randn({6, 5}), s.randn({5}), s.randn({5}), none, none}, BatchNorm{});
  s({s.randn({3, 2, 5}), none, none, none, none}, BatchNorm{});
  s({s.randn({2, 3, 20, 30}), s.randn({3}), none, none, none}, BatchNorm{true, 0.1, 1e-3});
  s({s.randn({90, 3}), none, s.randn({3}), none, none}, BatchNorm{});
  for (const Dims& sizes : {Dims{3, 4, 2, 3}, Dims{6, 4}, Dims{1, 4}, Dims{0, 4, 2}}) {
    s({s.randn(sizes), s.randn({4}), s.randn({4}), s.randn({4}), s.uniform({4}, 0.5, 2)}, BatchNorm{false});
  }
  s.error({s.randn({1, 3}), none, none, none, none}, BatchNorm{}, "needs more than one value per channel");
  s.error({s.randn({2, 3}), none, none, none, none}, BatchNorm{false}, "needs running_mean and running_var");
  s.error({s.randn({3}), none, none, none, none}, BatchNorm{}, "x needs the shape [N, C, ...]");
  s.error({s.randn({2, 3}), s.randn({2}), none, none, none}, BatchNorm{}, "weight has shape [2], expected [3]");
}
void BatchNormBackward::samples(Samples& s) {
  for (const Dims& sizes : {Dims{3, 4, 2, 3}, Dims{6, 4}}) {
    s.call({s.randn(sizes), s.randn(sizes), s.randn({4})},
           [](const Tensors& x) {
             const auto y = apply(BatchNorm{}, x[1].detach(), Tensor(), Tensor(), Tensor(), Tensor());
             return Samples::list(apply(BatchNormBackward{}, x[0], x[1], x[2], y[1], y[2]));
           },
           [](const Tensors& x) { return Samples::list(reference(BatchNormBackward{}, x[0], x[1], x[2], {}, {})); });
    const Tensor mean = s.randn({4}), inv_std = s.uniform({4}, 0.5, 2);
    auto with = [=](auto&& f) {
      return [=](const Tensors& x) {
        return Samples::list(f(BatchNormBackward{false}, x[0], x[1], x[2], cast(mean, x[0].dtype()).to(x[0].device()),
                               cast(inv_std, x[0].dtype()).to(x[0].device())));
      };
    };
    s.call({s.randn(sizes), s.randn(sizes), s.randn({4})}, with([](const auto&... x) { return apply(x...); }),
           with([](const auto&... x) { return reference(x...); }));
  }
}

void BatchNormRelu::samples(Samples& s) {
  const auto add = [&](Tensors x, BatchNorm norm) {
    const BatchNormRelu op{norm, x[3].defined()};
    const auto meaning = [=](const Tensors& t) { return reference(op, t[0], t[1], t[2], t[3], t[4], t[5]); };
    const auto function = [=](const Tensors& t) {
      return batch_norm_relu(t[0], t[1], t[2], t[4], t[5], norm.training, norm.momentum, norm.eps, t[3]);
    };
    s.call(std::move(x), function, meaning);
  };
  const Tensor none;
  for (const Dims& sizes : {Dims{3, 4, 2, 3}, Dims{6, 5}, Dims{3, 2, 5}, Dims{2, 3, 20, 30}, Dims{5, 64, 3, 3}}) {
    const Dims channels{sizes[1]};
    add({s.randn(sizes), s.randn(channels), s.randn(channels), none, none, none}, {});
    add({s.randn(sizes), s.randn(channels), s.randn(channels), s.randn(sizes), none, none}, {});
  }
  add({s.randn({4, 3, 3, 2}), none, none, none, none, none}, {});
  add({s.randn({4, 3, 3, 2}), none, none, s.randn({4, 3, 3, 2}), s.randn({3}), s.uniform({3}, 0.5, 2)}, {false});
  const auto error = [&](Tensors x, const char* fragment) {
    s.error_call(
        std::move(x), [](const Tensors& t) { return batch_norm_relu(t[0], {}, {}, {}, {}, true, 0.1, 1e-5, t[1]); },
        fragment);
  };
  error({s.randn({2, 3, 4}), s.randn({2, 3})}, "expected x's sizes and dtype");
  error({s.randn({1, 3}), none}, "needs more than one value per channel");
}
void BatchNormReluBackward::samples(Samples& s) {
  for (const Dims& sizes : {Dims{3, 4, 2, 3}, Dims{6, 4}}) {
    for (const bool has_z : {false, true}) {
      const auto with = [=](auto&& f) {
        return [=](const Tensors& x) {
          const Tensor z = has_z ? x[3] : Tensor();
          const BatchNorm norm;
          const Tensor y =
              BatchNormRelu::reference({norm, has_z}, x[1].detach(), x[2].detach(), Tensor(), z, Tensor(), Tensor());
          const auto saved = apply(norm, x[1].detach(), Tensor(), Tensor(), Tensor(), Tensor());
          auto d = f(BatchNormReluBackward{}, x[0], x[1], x[2], Tensor(), saved[1], saved[2], has_z ? y : Tensor());
          if (!has_z) return Tensors{d[0], d[1], d[2]};
          return Samples::list(d);
        };
      };
      const auto meaning = with([](const auto&... x) { return reference(x...); });
      const auto kernel = with([](const auto&... x) { return apply(x...); });
      // z is not differentiated here: it only determines the ReLU mask.
      const Tensor z = s.randn(sizes);
      const auto append = [z](const Tensors& x) {
        return Tensors{x[0], x[1], x[2], cast(z, x[0].dtype()).to(x[0].device())};
      };
      s.call(
          {s.randn(sizes), s.randn(sizes), s.randn({4})},
          [=](const Tensors& x) { return kernel(append(x)); },
          [=](const Tensors& x) { return meaning(append(x)); });
    }
  }
}

}  // namespace

MANTISSA_OP(BatchNorm)
MANTISSA_OP(BatchNormBackward)
MANTISSA_OP(BatchNormRelu)
MANTISSA_OP(BatchNormReluBackward)

namespace {
void note_written(const Tensor& running_mean, const Tensor& running_var, const Tensor& batches) {
  for (const Tensor* t : {&running_mean, &running_var, &batches})
    if (t->defined()) t->storage()->written_by("batch_norm");
}
}  // namespace

Tensor counted_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                          const Tensor& running_var, const Tensor& num_batches_tracked, bool training, double momentum,
                          double eps, bool relu, const Tensor& z) {
  const BatchNorm norm{training, momentum, eps, num_batches_tracked};
  auto y = relu ? apply(BatchNormRelu{norm, z.defined()}, x, weight, bias, z, running_mean, running_var)
                : apply(norm, x, weight, bias, running_mean, running_var);
  if (training) note_written(running_mean, running_var, num_batches_tracked);
  return std::move(y[0]);
}
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, bool training, double momentum, double eps) {
  return counted_batch_norm(x, weight, bias, running_mean, running_var, {}, training, momentum, eps);
}
Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                       const Tensor& running_var, bool training, double momentum, double eps, const Tensor& z) {
  return counted_batch_norm(x, weight, bias, running_mean, running_var, {}, training, momentum, eps, true, z);
}

std::array<Tensor, 3> batch_norm_gradients(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                           const Tensor& inv_std) {
  return apply(BatchNormBackward{.training = false}, g, x, weight, mean, inv_std);
}

}  // namespace mantissa
