// Softmax and log_softmax along one dimension. Both save only their result for backward.
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/floating.h"
#include "ops/registry.h"
#include "ops/with_dtype.h"

namespace mantissa {

MANTISSA_KERNEL(softmax, const View& y, const View& x, int dim)
MANTISSA_KERNEL(log_softmax, const View& y, const View& x, int dim)
MANTISSA_KERNEL(softmax_backward, const View& dx, const View& g, const View& y, int dim)
MANTISSA_KERNEL(log_softmax_backward, const View& dx, const View& g, const View& y, int dim)

namespace {

struct AlongDim {
  int dim = 0;

  Spec infer(const Tensor& x) const {
    wrap_dim(dim, x.dim());
    check_floating(x);
    return like(x);
  }
  int wrapped(const View& x) const { return wrap_dim(dim, x.dim()); }
};
// The gradient kernel; y is the result of the forward operator.
struct AlongDimBackward {
  int dim = 0;
  static constexpr const char* args[] = {"gradient", "result"};
  Spec infer(const Tensor& g, const Tensor& y) const {
    check_sizes(g, "gradient", y.sizes());
    return like(y);
  }
  int wrapped(const View& y) const { return wrap_dim(dim, y.dim()); }
};

struct SoftmaxBackward : AlongDimBackward {
  static constexpr auto name = "softmax_backward";
  void run(const View& dx, const View& g, const View& y) const {
    kernels::softmax_backward(dx.device, dx, g, y, wrapped(y));
  }
  static Tensor reference(const SoftmaxBackward& op, const Tensor& g, const Tensor& y) {
    return y * (g - sum(g * y, {op.dim}, true));
  }
  static void samples(Samples& s);
};
struct LogSoftmaxBackward : AlongDimBackward {
  static constexpr auto name = "log_softmax_backward";
  void run(const View& dx, const View& g, const View& y) const {
    kernels::log_softmax_backward(dx.device, dx, g, y, wrapped(y));
  }
  static Tensor reference(const LogSoftmaxBackward& op, const Tensor& g, const Tensor& y) {
    return g - exp(y) * sum(g, {op.dim}, true);
  }
  static void samples(Samples& s);
};

struct Softmax : AlongDim {
  static constexpr auto name = "softmax";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_inside;

  void run(const View& y, const View& x) const { kernels::softmax(y.device, y, x, wrapped(x)); }
  static constexpr auto vjp() {
    return rules([](const Softmax& op, Grad g, Out<0> y) {
      return apply_over({&g, &y}, SoftmaxBackward{{op.dim}}, g, y);
    });
  }
  static Tensor reference(const Softmax& op, const Tensor& x) {
    const Tensor e = exp(x - amax(x, {op.dim}, true));
    return e / sum(e, {op.dim}, true);
  }
  void onnx(OnnxCall& c) const { c.result(c.node("Softmax", {c.in(0)}, {c.axis(dim)})); }
  static void samples(Samples& s);
};
struct LogSoftmax : AlongDim {
  static constexpr auto name = "log_softmax";
  static constexpr const char* args[] = {"x"};
  static constexpr auto autocast = CastPolicy::f32_inside;

  void run(const View& y, const View& x) const { kernels::log_softmax(y.device, y, x, wrapped(x)); }
  static constexpr auto vjp() {
    return rules([](const LogSoftmax& op, Grad g, Out<0> y) {
      return apply_over({&g, &y}, LogSoftmaxBackward{{op.dim}}, g, y);
    });
  }
  static Tensor reference(const LogSoftmax& op, const Tensor& x) {
    const Tensor shifted = x - amax(x, {op.dim}, true);
    return shifted - log(sum(exp(shifted), {op.dim}, true));
  }
  void onnx(OnnxCall& c) const { c.result(c.node("LogSoftmax", {c.in(0)}, {c.axis(dim)})); }
  static void samples(Samples& s);
};

template <class Op> void samples_along_dim(Samples& s) {
  auto with = [&](const Dims& sizes, int dim) { s({s.randn(sizes)}, Op{{dim}}); };
  with({4, 33}, 0);
  with({4, 33}, 1);
  with({4, 33}, -1);
  with({2, 5, 3}, 1);
  with({3, 700}, -1);
  with({2, 1}, 1);
  with({}, 0);
  with({7}, -1);
  s({s.randn({3, 0})}, Op{{0}});
  s({s.randn({0, 3})}, Op{{1}});
  s.extreme({s.uniform({2, 9}, -1e4, 1e4)}, Op{{1}});
  s.extreme({full({2, 8}, 1e4, {.dtype = f64})}, Op{{0}});
  s.error({s.randn({2, 3})}, Op{{5}}, "dim 5 is out of range for 2 dimensions");
  s.error({s.integers({2, 3}, 0, 4)}, Op{{0}}, "needs a floating dtype");
}
template <class Op> void samples_of_backward(Samples& s, bool log) {
  for (int dim : {0, 1, -1}) {
    const Tensor x = s.randn({3, 7, 2});
    s({s.randn({3, 7, 2}), log ? log_softmax(x, dim) : softmax(x, dim)}, Op{{dim}});
  }
}
void Softmax::samples(Samples& s) { samples_along_dim<Softmax>(s); }
void LogSoftmax::samples(Samples& s) { samples_along_dim<LogSoftmax>(s); }
void SoftmaxBackward::samples(Samples& s) { samples_of_backward<SoftmaxBackward>(s, false); }
void LogSoftmaxBackward::samples(Samples& s) { samples_of_backward<LogSoftmaxBackward>(s, true); }

}  // namespace

MANTISSA_OP(Softmax)
MANTISSA_OP(LogSoftmax)
MANTISSA_OP(SoftmaxBackward)
MANTISSA_OP(LogSoftmaxBackward)

Tensor softmax(const Tensor& x, int dim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [dim](const Tensor& t) { return apply(Softmax{{dim}}, t); });
}
Tensor log_softmax(const Tensor& x, int dim, std::optional<Dtype> dtype) {
  return with_dtype(x, dtype, [dim](const Tensor& t) { return apply(LogSoftmax{{dim}}, t); });
}
Tensor softmin(const Tensor& x, int dim, std::optional<Dtype> dtype) { return softmax(neg(x), dim, dtype); }

namespace {
void softmin_samples(Samples& s) {
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return softmin(x[0], 1); });
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return softmin(x[0], 2); }, "dim 2 is out of range");
}
MANTISSA_COMPOSITE(softmin, softmin_samples)
}  // namespace

}  // namespace mantissa
