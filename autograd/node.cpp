#include "autograd/node.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/last_owner.h"
#include "core/context.h"
#include "core/multi_tensor.h"
#include "core/ops.h"
#include "core/recording.h"

namespace mantissa {
namespace autograd {

Node::~Node() { delete hooks_; }

Hooks& Node::hooks() {
  if (!hooks_) hooks_ = new Hooks;
  return *hooks_;
}

void retain(Node* n) noexcept { n->retain(); }

// Destroying a node drops its edges, which may destroy their nodes, and so on: a graph a million
// nodes deep would overflow the stack. Nodes dropped while another is being destroyed wait in a list.
void release(Node* n) noexcept {
  if (!n->drop()) return;
  struct Waiting {  // the first few without asking for memory
    Node* few[32];
    std::size_t count = 0;
    std::vector<Node*> more;
  };
  static constinit thread_local Waiting* waiting = nullptr;
  if (waiting) {
    if (waiting->count < std::size(waiting->few)) waiting->few[waiting->count++] = n;
    else waiting->more.push_back(n);
    return;
  }
  Waiting list;
  waiting = &list;
  delete n;
  while (list.count > 0 || !list.more.empty()) {
    Node* next;
    if (list.more.empty()) {
      next = list.few[--list.count];
    } else {
      next = list.more.back();
      list.more.pop_back();
    }
    delete next;
  }
  waiting = nullptr;
}

namespace {
thread_local std::vector<std::uint64_t> running_tags;
}
void tag_running_backward(std::uint64_t tag) {
  if (std::ranges::find(running_tags, tag) == running_tags.end()) running_tags.push_back(tag);
}
RunningTags::RunningTags() : before_(std::exchange(running_tags, {})) {}
RunningTags::~RunningTags() { running_tags = std::move(before_); }

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
bool is_dense(const Tensor& g) { return g.is_contiguous() || g.layout() == Layout::channels_last; }
void add_gradient(LeafNode& leaf, Tensor g, bool create_graph) {
  if (create_graph) {
    if (g.dtype() != leaf.dtype()) g = cast(g, leaf.dtype());
    leaf.grad = leaf.grad.defined() ? add(leaf.grad, g) : g;
    return;
  }
  const NoGrad no_grad;
  if (leaf.grad.defined()) {
    leaf.grad.add_(g);
  } else if (g.ref()->unique() && g.storage()->unique() && is_dense(g) && g.dtype() == leaf.dtype()) {
    leaf.grad = std::move(g);  // nobody else holds it
    leaf.grad.impl()->node = {};
  } else {
    leaf.grad = empty(g.sizes(), {.dtype = leaf.dtype(), .device = g.device()});
    leaf.grad.copy_(g);
  }
}
}  // namespace

LeafNode::Update::Update(LeafNode& leaf)
    : leaf_(leaf), lock_(leaf.mutex), tagged_(!running_tags.empty() || leaf.has_hooks()) {
  if (!tagged_) return;
  if (leaf.hooks().pending.scale.defined()) {
    leaf.grad = settled_gradient(leaf);
    leaf.hooks().pending = {};
  }
  as_noted_ = leaf.grad.defined() && leaf.grad.storage()->version() == leaf.hooks().tags.version;
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

bool holds_gradient_alone(const Tensor& leaf) {
  const Tensor& g = static_cast<LeafNode*>(leaf.impl()->node.get())->grad;
  return !g.defined() || (g.ref()->unique() && g.storage()->unique());
}
void leave_pending(const Tensor& leaf, PendingScaling pending) {
  static_cast<LeafNode*>(leaf.impl()->node.get())->hooks().pending = std::move(pending);
}
Tensor settled_gradient(LeafNode& leaf) {
  if (!leaf.has_hooks() || !leaf.hooks().pending.scale.defined()) return leaf.grad;
  PendingScaling& pending = leaf.hooks().pending;
  const NoGrad no_grad;
  const Tensor &g = leaf.grad,
               scratch = zeros({static_cast<std::int64_t>(sizeof(GradientSummary) / sizeof(double)) + 1},
                               {.dtype = f64, .device = g.device()});
  const Tensor dense = g.is_contiguous() && !(pending.recorded && !is_recording(g.device()))
                           ? g : Tensor::allocate(g.sizes(), g.dtype(), g.device()).copy_(g);
  double* summary = scratch.data<double>();
  const GradientView view{dense.raw_data(), dense.numel(), dense.dtype()};
  kernels::unscale_gradients(g.device(), std::span(&view, 1), pending.scale.data<float>(), true,
                             reinterpret_cast<bool*>(summary + sizeof(GradientSummary) / sizeof(double)),
                             reinterpret_cast<GradientSummary*>(summary));
  if (pending.norm.defined()) {
    kernels::scale_gradients(g.device(), std::span(&view, 1), pending.norm.data<float>(), pending.max_norm);
  }
  if (pending.recorded && !is_recording(g.device())) return dense;
  if (!dense.is_same(g)) Tensor(g).copy_(dense);
  else g.storage()->written_by("unscale_");
  GradientTags& tags = leaf.hooks().tags;  // they still hold: this is no change by the user
  tags.version = g.storage()->version();
  pending = {};
  return g;
}

bool may_write_over(const Tensor& t, const Dims& sizes, const Dims& strides, Dtype dtype, Device device) {
  return !context().grad_enabled && t.defined() && held_alone(t) && t.dtype() == dtype && t.device() == device &&
         t.sizes() == sizes && t.strides() == strides && t.nbytes() == t.storage()->nbytes();
}

Tensor fit_gradient(Tensor g, const InputMeta& input, const NodeRef& edge) {
  if (!g.defined()) return g;
  if (!(g.sizes() == input.sizes)) g = sum_to(g, input.sizes);
  const bool is_leafs = edge->is_leaf() && g.dtype() == static_cast<LeafNode*>(edge.get())->dtype();
  if (g.dtype() != input.dtype && !is_leafs) g = cast(g, input.dtype);
  if (!(g.device() == input.device)) g = g.to(input.device);
  return g;
}

Destination destination_of(const NodeRef& edge, const InputMeta& input, Node::Pass pass) {
  if (!edge || !edge->is_leaf() || context().create_graph) return {input.dtype, nullptr};
  auto& leaf = *static_cast<LeafNode*>(edge.get());
  // In halves sums of many passes would be lost, and f64 is for comparing with: a second pass
  // adds exactly what the first did.
  if (leaf.dtype() != f32 || input.dtype == f64) return {input.dtype, nullptr};
  return {f32, pass.to_leaves && !(leaf.has_hooks() && leaf.hooks().calls()) ? &leaf : nullptr};
}

void SavedTensor::changed(const char* op, const char* what) const {
  fail("\"", op, "\" saved its ", what[0] == 'r' && what[1] == 'e' ? "" : "input ", what, " (version ", version,
       "), since changed by ", tensor.storage()->last_writer(), " (version ", tensor.storage()->version(),
       "); change a clone() instead, or change it after backward");
}

void fail_second_backward(const char* op) {
  fail("backward ran through \"", op,
       "\" twice and what it had saved is gone; pass retain_graph to the first backward");
}

Node& node_for_hook(const Tensor& x) {
  check(x.requires_grad(), "a gradient hook needs a tensor with requires_grad, got ",
        x);
  return *x.impl()->node.get();
}

}  // namespace autograd

void on_accumulated(const Tensor& leaf, std::function<void(const Tensor&)> hook) {
  autograd::Node& node = autograd::node_for_hook(leaf);
  check(node.is_leaf(), "on_accumulated needs a leaf; use on_grad for the result of an operator");
  node.hooks().on_accumulated.push_back(std::move(hook));
}

bool Tensor::is_leaf() const { return !impl_->node || impl_->node->is_leaf(); }

Tensor& Tensor::requires_grad_(bool on) {
  check(is_leaf(), "requires_grad_: ", *this, " is the result of an operator; use detach() first");
  if (!on) {
    impl_->node = {};
  } else if (!impl_->node) {
    check(is_floating(), "requires_grad_: only floating tensors have gradients, this is ", *this);
    impl_->node = autograd::NodeRef(new autograd::LeafNode(sizes(), dtype(), device()));
  }
  return *this;
}

Tensor Tensor::grad() const {
  if (!requires_grad() || !impl_->node->is_leaf()) return {};
  auto& leaf = *static_cast<autograd::LeafNode*>(impl_->node.get());
  if (leaf.has_hooks()) [[unlikely]] {
    const std::lock_guard lock(leaf.mutex);  // several threads may look at a gradient, and the first settles it
    return autograd::settled_gradient(leaf);
  }
  return leaf.grad;
}
void Tensor::set_grad(const Tensor& g) {
  check(requires_grad() && impl_->node->is_leaf(), "set_grad: ", *this, " is not a leaf that requires a gradient");
  check(!g.defined() || g.sizes() == sizes(), "set_grad: the gradient has shape ", g.defined() ? g.sizes() : Dims{},
        ", the tensor ", sizes());
  auto* leaf = static_cast<autograd::LeafNode*>(impl_->node.get());
  leaf->grad = g;
  if (leaf->has_hooks()) leaf->hooks().tags = {}, leaf->hooks().pending = {};
}

Tensor Tensor::detach() const {
  Ref<TensorImpl> t(new TensorImpl);
  t->storage = impl_->storage;
  t->data = impl_->data;
  t->sizes = impl_->sizes;
  t->strides = impl_->strides;
  t->dtype = impl_->dtype;
  t->device = impl_->device;
  return Tensor(std::move(t));
}

}  // namespace mantissa
