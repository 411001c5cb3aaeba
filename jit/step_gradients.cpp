#include "jit/step_gradients.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "amp/scale_ledger.h"
#include "core/from_blob.h"
#include "core/memory_order.h"

namespace mantissa::jit {
namespace {

using autograd::LeafNode;

const void* address_of(const Tensor& gradient) { return gradient.defined() ? gradient.raw_data() : nullptr; }

// The same memory as a tensor of its own: as before, the leaf holds its gradient alone (autograd/last_owner.h).
Tensor other_handle(const Tensor& gradient) {
  if (gradient.requires_grad() || gradient.numel() == 0 || !is_dense(gradient)) return gradient;
  const Tensor flat = from_blob(gradient.raw_data(), {gradient.numel()}, [gradient](void*) {},
                                {.dtype = gradient.dtype(), .device = gradient.device()});
  return flat.raw_view(gradient.sizes(), gradient.strides());
}

}  // namespace

StepGradients::Watch::Watch(StepGradients& gradients)
    : gradients_(gradients),
      before_(std::exchange(autograd::leaf_watch, this)),
      first_(autograd::Node::next_id()) {
  gradients.leaves_.clear();
  ++autograd::leaf_watches;
}
StepGradients::Watch::~Watch() {
  --autograd::leaf_watches;
  autograd::leaf_watch = before_;
}

void StepGradients::Watch::before_use(LeafNode& node, bool reads) {
  if (before_) before_->before_use(node, reads);
  if (node.id() >= first_) return;
  std::vector<Leaf>& all = gradients_.leaves_;
  if (std::ranges::any_of(all, [&](const Leaf& l) { return l.node.get() == &node; })) return;
  Leaf& leaf = all.emplace_back();
  leaf.node = autograd::NodeRef(&node);
  leaf.dtype = node.dtype();
  leaf.matters = reads;
  leaf.found = address_of(node.grad);
  if (!leaf.found) return;
  leaf.found_dtype = node.grad.dtype();
  leaf.found_layout = node.grad.layout();
}

bool StepGradients::are_as_found() const {
  return std::ranges::all_of(leaves_, [](const Leaf& l) {
    const Tensor& g = node_of(l).grad;
    if (node_of(l).dtype() != l.dtype) return false;
    if (!l.matters) return true;
    if (address_of(g) != l.found) return false;
    return !l.found || (g.dtype() == l.found_dtype && g.layout() == l.found_layout);
  });
}

void StepGradients::keep_left() {
  for (Leaf& l : leaves_) {
    LeafNode& node = node_of(l);
    const std::lock_guard lock(node.mutex);
    l.stays = node.grad.defined() && address_of(node.grad) == l.found;
    if (!l.stays && node.grad.defined()) l.left = std::exchange(node.grad, other_handle(node.grad));
    if (!node.has_hooks()) continue;
    l.tags = node.hooks().tags;
    l.pending = node.hooks().pending;
    if (node.grad.defined() && l.left.defined()) node.hooks().tags.version = node.grad.storage()->version();
  }
}

void StepGradients::put_back() const {
  for (const Leaf& l : leaves_) {
    LeafNode& node = node_of(l);
    const std::lock_guard lock(node.mutex);
    if (!l.stays && address_of(node.grad) != address_of(l.left))
      node.grad = l.left.defined() ? other_handle(l.left) : Tensor();
    else if (!l.stays && node.grad.defined()) node.grad.storage()->written_by("a captured step");
    if (!node.has_hooks()) continue;
    // With the scaler's present scale, which the replay has read, or divided by it already.
    autograd::Hooks& hooks = node.hooks();
    hooks.tags = amp::carries_scale(l.tags) ? autograd::GradientTags() : l.tags;
    if (node.grad.defined()) hooks.tags.version = node.grad.storage()->version();
    hooks.pending = l.pending;
  }
}

}  // namespace mantissa::jit
