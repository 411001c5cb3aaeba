// The state of a leaf: its gradient with the loss scales that it carries, and its shadow; and Tensor's members about
// leaves.
#include <algorithm>
#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/last_owner.h"
#include "autograd/leaf_watch.h"
#include "autograd/node.h"
#include "core/memory_order.h"
#include "core/ops.h"
#include "core/recorded_memory.h"

namespace mantissa {
namespace autograd {

namespace {
constinit std::atomic<std::int64_t> shadow_total{0}, shadow_peak{0};

void count_shadow(std::int64_t change) {
  const std::int64_t now = shadow_total.fetch_add(change, std::memory_order_relaxed) + change;
  std::int64_t peak = shadow_peak.load(std::memory_order_relaxed);
  while (now > peak && !shadow_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {}
}
}  // namespace

LeafNode::~LeafNode() {
  if (unlisted) forget_unlisted(*this);
  if (shadow.defined()) count_shadow(-shadow.nbytes());
}
void LeafNode::set_shadow(Tensor fresh, std::uint32_t version) {
  const std::int64_t change = (fresh.defined() ? fresh.nbytes() : 0) - (shadow.defined() ? shadow.nbytes() : 0);
  if (change != 0) count_shadow(change);
  shadow = std::move(fresh);
  shadow_version = version;
}
std::int64_t LeafNode::shadow_bytes() { return shadow_total.load(std::memory_order_relaxed); }
std::int64_t LeafNode::peak_shadow_bytes() { return shadow_peak.load(std::memory_order_relaxed); }
void LeafNode::reset_peak_shadow_bytes() { shadow_peak.store(shadow_bytes(), std::memory_order_relaxed); }

namespace {
void add_gradient(LeafNode& leaf, Tensor g, bool create_graph) {
  if (create_graph) {
    if (g.dtype() != leaf.dtype()) g = cast(g, leaf.dtype());
    // A copy, as in PyTorch: g may also be the gradient of another leaf, or expanded.
    leaf.grad = leaf.grad.defined() ? add(leaf.grad, g) : is_only_handle(g) && is_dense(g) ? g : g.clone();
    return;
  }
  const NoGrad no_grad;
  if (leaf.grad.defined()) {
    leaf.grad.add_(g);
  } else if (is_only_handle(g) && is_dense(g) && g.dtype() == leaf.dtype()) {
    leaf.grad = std::move(g);  // nobody else holds it
    leaf.grad.impl()->node = {};
  } else {
    leaf.grad = Tensor::allocate(g.sizes(), leaf.dtype(), g.device(), leaf.layout()).copy_(g);
  }
}
}  // namespace

namespace {
thread_local std::vector<std::uint64_t> running_tags;
}
void tag_running_backward(std::uint64_t tag) {
  if (std::ranges::find(running_tags, tag) == running_tags.end()) running_tags.push_back(tag);
}
RunningTags::RunningTags() : before_(std::exchange(running_tags, {})) {}
RunningTags::~RunningTags() { running_tags = std::move(before_); }

LeafNode::Update::Update(LeafNode& leaf)
    : leaf_(leaf), lock_(leaf.mutex), tagged_(!running_tags.empty() || leaf.has_hooks()) {
  tell_watch(leaf, true);
  if (!tagged_) return;
  if (leaf.hooks().pending.scale.defined()) {
    leaf.grad = settled_gradient(leaf);
    leaf.hooks().pending = {};
  }
  as_noted_ = leaf.grad.defined() && leaf.grad.storage()->version() == leaf.hooks().tags.version;
  std::vector<std::uint64_t>& tags = leaf.hooks().tags.tags;
  tags.reserve(tags.size() + running_tags.size());  // the destructor must not allocate
}
LeafNode::Update::~Update() {
  if (!tagged_ || !leaf_.grad.defined()) return;
  GradientTags& own = leaf_.hooks().tags;
  if (!as_noted_) own.tags.clear();
  for (std::uint64_t tag : running_tags) {
    if (std::ranges::find(own.tags, tag) == own.tags.end()) own.tags.push_back(tag);
  }
  own.version = leaf_.grad.storage()->version();
}
void LeafNode::accumulate(Tensor g, bool create_graph) {
  const Update update(*this);
  add_gradient(*this, std::move(g), create_graph);
}

}  // namespace autograd

bool Tensor::is_leaf() const { return !self().node || self().node->is_leaf(); }

Tensor& Tensor::requires_grad_(bool on) {
  check(is_leaf(), "requires_grad_: ", *this, " is the result of an operator; use detach() first");
  // Captured steps that use it would do something else from now on. (What a step itself turns on and off is the same in
  // each of its runs, and of a handle held alone, as in x.detach().requires_grad_(), no step knows.)
  if (on != requires_grad() && !(on && ref()->unique()) && !autograd::is_in_captured_step())
    cuda_backend::outdate_recordings(*this);
  if (!on) {
    impl_->node = {};
  } else if (!impl_->node) {
    check(is_floating(), "requires_grad_: only floating tensors have gradients, this is ", *this);
    impl_->node = autograd::NodeRef(new autograd::LeafNode(sizes(), dtype(), device(), layout()));
  }
  return *this;
}

Tensor Tensor::grad() const {
  autograd::LeafNode* leaf = defined() ? autograd::leaf_of(*this) : nullptr;
  if (!leaf) return {};
  autograd::tell_watch(*leaf, true);
  if (leaf->has_hooks()) [[unlikely]] {
    const std::lock_guard lock(leaf->mutex);  // several threads may read a gradient; the first applies pending scaling
    return autograd::settled_gradient(*leaf);
  }
  return leaf->grad;
}
void Tensor::set_grad(const Tensor& g) {
  autograd::LeafNode* leaf = defined() ? autograd::leaf_of(*this) : nullptr;
  check(leaf != nullptr, "set_grad: ", *this, " is not a leaf that requires a gradient");
  check(!g.defined() || g.sizes() == sizes(), "set_grad: the gradient has shape ", g.defined() ? g.sizes() : Dims{},
        ", the tensor ", sizes());
  autograd::tell_watch(*leaf, false);
  leaf->grad = g;
  if (leaf->has_hooks()) leaf->hooks().tags = {}, leaf->hooks().pending = {};
}

}  // namespace mantissa
