#include "ops/fused_activation.h"

#include "amp/observe.h"
#include "ops/pointwise.h"

namespace mantissa {
namespace {

template <class F> void record(const Tensor& before, const Tensor& y) {
  using Op = pointwise::Unary<F>;
  const Tensor* x[] = {&before};
  y.impl()->node = autograd::NodeRef(new autograd::OpNode<Op, 1, 1>(Op{}, x, std::span(&y, 1)));
}

}  // namespace

Tensor apply_activation(const Tensor& x, Activation activation) {
  if (activation == Activation::none) return x;
  return activation == Activation::relu ? relu(x) : gelu(x, activation == Activation::gelu ? "none" : "tanh");
}

Tensor activation_gradient(const Tensor& g, const Tensor& saved, Activation activation) {
  using namespace pointwise;
  if (activation == Activation::relu) return unary_backward<Relu>({}, g, saved);
  return activation == Activation::gelu ? unary_backward<Gelu>({}, g, saved) : unary_backward<GeluTanh>({}, g, saved);
}

void record_activation(Activation activation, const Tensor& before, const Tensor& y) {
  if (activation == Activation::relu) record<pointwise::Relu>(before, y);
  else if (activation == Activation::gelu) record<pointwise::Gelu>(before, y);
  else record<pointwise::GeluTanh>(before, y);
}

bool activation_runs_apart() {
  const Context& c = context();
  return c.anomaly || c.autocast.overlay || (c.autocast.any() && amp::Observer::current());
}

}  // namespace mantissa
