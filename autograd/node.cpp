#include "autograd/node.h"

#include <memory>
#include <string_view>
#include <vector>

#include "autograd/hooks.h"
#include "core/context.h"
#include "core/ops.h"

namespace mantissa::autograd {

Node::~Node() { delete hooks_.load(std::memory_order_relaxed); }

namespace {
// Apart from hooks(), which is called in every step, to keep that short.
[[gnu::noinline, gnu::cold]] Hooks& make_hooks(std::atomic<Hooks*>& hooks) {
  auto made = std::make_unique<Hooks>();
  Hooks* before = nullptr;
  return hooks.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel) ? *made.release() : *before;
}
}  // namespace
Hooks& Node::hooks() {
  Hooks* const hooks = hooks_.load(std::memory_order_acquire);
  return hooks ? *hooks : make_hooks(hooks_);
}

void retain(Node* n) noexcept { n->retain(); }

// Destroying a node drops its edges, which may destroy their nodes, and so on: a graph a million nodes deep would
// overflow the stack. Nodes released while another is being destroyed are queued instead.
void release(Node* n) noexcept {
  if (!n->drop()) return;
  struct Waiting {  // the first few without allocating
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

Tensor fit_gradient(Tensor g, const InputMeta& input, const NodeRef& edge) {
  if (!g.defined()) return g;
  if (!(g.sizes() == input.sizes)) g = sum_to(g, input.sizes);
  const bool is_of_leaf = edge->is_leaf() && g.dtype() == static_cast<LeafNode*>(edge.get())->dtype();
  if (g.dtype() != input.dtype && !is_of_leaf) g = cast(g, input.dtype);
  if (!(g.device() == input.device)) g = g.to(input.device);
  return g;
}

Destination destination_of(const NodeRef& edge, const InputMeta& input, Node::Pass pass) {
  if (!edge || !edge->is_leaf() || context().create_graph) return {input.dtype};
  auto& leaf = *static_cast<LeafNode*>(edge.get());
  // In f16 or bf16, sums of many passes would lose precision; in f64, which is used for comparisons, a second pass must
  // add exactly what the first did.
  if (leaf.dtype() != f32 || input.dtype == f64) return {input.dtype, nullptr, leaf.layout()};
  return {f32, pass.to_leaves && !(leaf.has_hooks() && leaf.hooks().calls()) ? &leaf : nullptr, leaf.layout()};
}

void SavedTensor::changed(const char* op, const char* what) const {
  fail("\"", op, "\" saved its ", std::string_view(what) == "result" ? "" : "input ", what, " (version ", version,
       "), since changed by ", tensor.storage()->last_writer(), " (version ", tensor.storage()->version(),
       "); change a clone() instead, or change it after backward");
}

void fail_second_backward(const char* op) {
  fail("backward ran through \"", op,
       "\" twice and what it had saved is gone; pass retain_graph to the first backward");
}

}  // namespace mantissa::autograd
