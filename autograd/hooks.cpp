#include "autograd/hooks.h"

#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/last_owner.h"
#include "core/memory_order.h"
#include "core/multi_tensor.h"
#include "core/recording.h"

namespace mantissa {
namespace autograd {

bool holds_gradient_alone(const Tensor& leaf) {
  const Tensor& g = leaf_of(leaf)->grad;
  return !g.defined() || is_only_handle(g);
}
void leave_pending(const Tensor& leaf, PendingScaling pending) {
  leaf_of(leaf)->hooks().pending = std::move(pending);
}
Tensor settled_gradient(LeafNode& leaf) {
  if (!leaf.has_hooks() || !leaf.hooks().pending.scale.defined()) return leaf.grad;
  PendingScaling& pending = leaf.hooks().pending;
  const NoGrad no_grad;
  const Tensor &g = leaf.grad,
               scratch = empty({static_cast<std::int64_t>(sizeof(GradientSummary) / sizeof(double)) + 1},
                               {.dtype = f64, .device = g.device()});
  const bool apart = pending.recorded && !is_recording(g.device());
  const Tensor flat =
      apart ? Tensor::allocate(g.sizes(), g.dtype(), g.device(), g.layout()).copy_(g) : dense(g, g.layout());
  double* summary = scratch.data<double>();
  const GradientView view{flat.raw_data(), flat.numel(), flat.dtype()};
  kernels::unscale_gradients(g.device(), std::span(&view, 1), pending.scale.data<float>(), true, nullptr,
                             reinterpret_cast<bool*>(summary + sizeof(GradientSummary) / sizeof(double)),
                             reinterpret_cast<GradientSummary*>(summary), nullptr);
  if (pending.norm.defined()) {
    kernels::scale_gradients(g.device(), std::span(&view, 1), pending.norm.data<float>(), pending.max_norm);
  }
  if (apart) return flat;
  if (!flat.is_same(g)) Tensor(g).copy_(flat);
  else g.storage()->written_by("unscale_");
  GradientTags& tags = leaf.hooks().tags;  // the tags stay valid: this is not a change by the user
  tags.version = g.storage()->version();
  pending = {};
  return g;
}

Node& node_for_hook(const Tensor& x) {
  check(x.requires_grad(), "a gradient hook needs a tensor with requires_grad, got ", x);
  return *x.impl()->node.get();
}

}  // namespace autograd

void on_accumulated(const Tensor& leaf, std::function<void(const Tensor&)> hook) {
  autograd::Node& node = autograd::node_for_hook(leaf);
  check(node.is_leaf(), "on_accumulated needs a leaf; use on_grad for the result of an operator");
  node.hooks().on_accumulated.push_back(std::move(hook));
}

}  // namespace mantissa
