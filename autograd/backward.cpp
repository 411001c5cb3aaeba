// The engine: takes the pending node with the largest id, runs its rules and adds the results to the gradients of its
// inputs (autograd/pending.h), until nothing is pending.
#include "autograd/backward.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/anomaly.h"
#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "autograd/pass_end.h"
#include "autograd/pending.h"
#include "autograd/rule.h"
#include "core/context.h"
#include "core/ops.h"
#include "core/profile.h"
#include "core/shared_one.h"

namespace mantissa {
namespace {

using autograd::LeafNode;
using autograd::Node;
using autograd::NodeRef;
using autograd::Part;
using autograd::PendingGradients;
using autograd::SavedActivation;

// What grad() captures.
struct Captures {
  std::unordered_map<const Node*, Tensor> gradients;  // the nodes of grad()'s inputs
  std::unordered_set<const Node*> needed;             // nodes with an edge on the way to one of them
  bool stop = false;                                  // do not continue past the captured nodes
  bool reaches(const Node* n) const { return gradients.contains(n) || needed.contains(n); }
  bool stops_at(const Node* n) const { return stop && gradients.contains(n); }
};

void run_grad_hooks(Node& node, Tensor& g) {
  for (auto& hook : node.hooks().on_grad) {
    Tensor replaced = hook(g);
    if (!replaced.defined()) continue;
    check(replaced.sizes() == g.sizes(), "a gradient hook on ", node.name(), " returned shape ", replaced.sizes(),
          " for a gradient of shape ", g.sizes());
    g = replaced.dtype() == g.dtype() ? replaced : cast(replaced, g.dtype());
  }
}

void accumulate_in_leaf(LeafNode& leaf, Tensor g, bool create_graph) {
  leaf.accumulate(std::move(g), create_graph);
  if (leaf.has_hooks()) {
    for (auto& hook : leaf.hooks().on_accumulated) hook(leaf.grad);
  }
}

// Anomaly mode: for each node that ran, the node that first contributed to its gradient.
using Parents = std::unordered_map<const Node*, const Node*>;
void check_for_nan(const Node& node, std::span<const Tensor> gradients, const Parents& parents) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!autograd::has_nan(gradients[i])) continue;
    std::vector<const Node*> path{&node};
    for (auto it = parents.find(&node); it != parents.end() && it->second; it = parents.find(it->second)) {
      path.push_back(it->second);
    }
    autograd::fail_nan_gradient(i, path);
  }
}

class ModeGuard {  // backward runs in the dtypes of forward, whatever autocast region it is called from
 public:
  explicit ModeGuard(bool create_graph) : before_(context()) {
    context().grad_enabled = context().create_graph = create_graph;
    context().autocast = {.depth = before_.autocast.depth};
    context().anomaly = false;  // a rule may produce NaN internally and mask it: only its result is checked
  }
  ~ModeGuard() { context() = before_; }
  bool anomaly() const { return before_.anomaly; }

 private:
  Context before_;
};

// The input of `node` that an activation made which the node's rule can differentiate as well, or -1. Not if someone
// wants to see the gradient between the two.
int find_activation(const Node& node, const Captures* captures, SavedActivation& activation) {
  const int i = node.differentiates_activation_of();
  if (i < 0) return -1;
  const Node* made_by = node.edges()[i].get();
  const bool seen = made_by && (made_by->has_hooks() || (captures && captures->gradients.contains(made_by)));
  return made_by && !seen && made_by->is_activation(&activation) ? i : -1;
}
// Activations that do not run, because their consumers differentiated them. Saved tensors are released once all nodes
// with larger ids have run: no other consumer is left then.
class Skipped {
 public:
  explicit Skipped(bool retain_graph) : retain_graph_(retain_graph) {}
  void add(const NodeRef& activation) {
    if (retain_graph_) return;
    if (last_) earlier_.push_back(last_);
    last_ = activation;
  }
  void release_above(std::uint64_t id) {
    while (last_ && last_->id() > id) {
      last_->release_saved();
      last_ = {};
      if (earlier_.empty()) return;
      last_ = std::move(earlier_.back());
      earlier_.pop_back();
    }
  }

 private:
  bool retain_graph_;
  NodeRef last_;  // nearly always the only one: a step allocates nothing
  std::vector<NodeRef> earlier_;
};

void run(PendingGradients& pending, bool retain_graph, bool create_graph, Captures* captures) {
  const ProfileRange range(ProfileKind::library, "backward");
  const ModeGuard modes(create_graph);
  const autograd::RunningTags tags;
  autograd::RunningPass whole;
  // The in-place optimisations (slices, accumulation inside rules, direct writes to leaves) are off while the pass is
  // recorded or checked for NaN.
  const bool plain = !create_graph && !modes.anomaly();
  const Node::Pass pass{.last = !retain_graph, .to_leaves = plain && !captures};
  Parents parents;
  Part part;  // reused for all nodes, most of which are no part
  Skipped skipped(retain_graph);
  Tensor few[8];
  std::vector<Tensor> many;
  while (!pending.empty()) {
    PendingGradients::Entry p = pending.take_next();
    Node& node = *p.node.get();
    skipped.release_above(node.id());
    if (node.is_leaf()) {  // a shadow's gradient arrives in the shadow's dtype; hooks and grad() see the leaf's
      const Dtype dtype = static_cast<LeafNode&>(node).dtype();
      if ((captures || (node.has_hooks() && node.hooks().calls())) && p.gradient.dtype() != dtype)
        p.gradient = cast(p.gradient, dtype);
    }
    if (node.has_hooks() && !(captures && captures->stops_at(&node))) run_grad_hooks(node, p.gradient);
    if (captures) {
      if (auto it = captures->gradients.find(&node); it != captures->gradients.end()) it->second = p.gradient;
      if (!captures->needed.contains(&node)) continue;
    } else if (node.is_leaf()) {
      accumulate_in_leaf(static_cast<LeafNode&>(node), std::move(p.gradient), create_graph);
      continue;
    }
    const auto edges = node.edges();
    if (plain && node.is_part(part)) {
      if (edges[0] && (!captures || captures->reaches(edges[0].get())))
        pending.add_part(edges[0], p.gradient, part, &node);
      continue;
    }
    if (edges.size() > std::size(few)) many.resize(edges.size());
    const std::span<Tensor> grads(edges.size() > std::size(few) ? many.data() : few, edges.size());
    std::ranges::fill(grads, Tensor());
    if (const InputMeta* input = plain ? node.adds_to() : nullptr; input && edges[0])
      grads[0] = pending.take(*edges[0].get(), *input);
    const ProfileRange rule(ProfileKind::backward, node.name(), &p.gradient);
    int activated = -1;  // the input whose activation the node differentiates
    try {
      SavedActivation activation;
      Node::Pass own = pass;
      if (plain) activated = find_activation(node, captures, activation);
      if (activated >= 0) own.activation = &activation;
      node.backward(std::move(p.gradient), grads, own);
      if (modes.anomaly()) {
        parents[&node] = p.from;
        check_for_nan(node, grads, parents);
      }
    } catch (Error& e) {
      e.add_outer_context(concat("while differentiating ", node.name()));
      throw;
    }
    if (!retain_graph) node.release_saved();
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (!edges[i] || !grads[i].defined()) continue;
      if (captures && !captures->reaches(edges[i].get())) continue;
      const bool skips = static_cast<int>(i) == activated;
      if (skips) skipped.add(edges[i]);
      pending.add(skips ? edges[i]->edges()[0] : edges[i], std::move(grads[i]), create_graph, &node);
    }
  }
  skipped.release_above(0);
  whole.end();
}

// `name`: the function the user called, for errors.
PendingGradients start(const char* name, std::span<const Tensor> roots, std::span<const Tensor> gradients,
                       bool create_graph) {
  check(gradients.empty() || gradients.size() == roots.size(), name, ": ", gradients.size(), " gradients given for ",
        roots.size(), " roots");
  PendingGradients pending;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const Tensor& root = roots[i];
    check(root.defined(), name, ": the root is an undefined tensor");
    check(root.requires_grad(), name, ": ", root,
          " needs no gradient: no input of its computation has requires_grad, or it ran under NoGrad");
    Tensor g = i < gradients.size() ? gradients[i] : Tensor();
    if (!g.defined()) {
      check(root.numel() == 1, name, ": ", root,
            " has more than one element; reduce it (sum, mean) or pass its gradient");
      g = root.dim() == 0 ? shared_one(root.device(), root.dtype()) : ones_like(root);
    }
    check(g.sizes() == root.sizes(), name, ": the gradient has shape ", g.sizes(), ", the root ", root.sizes());
    if (g.dtype() != root.dtype()) g = cast(g, root.dtype());
    pending.add(root.impl()->node, g, create_graph, nullptr);
  }
  return pending;
}

// Marks every node with an edge on a path to one of the captured nodes; only these run. The search stops at the
// smallest id of the captured nodes, which no node on such a path can be below.
void mark_needed(std::span<const Tensor> roots, Captures& captures) {
  std::uint64_t smallest = UINT64_MAX;
  for (auto& [node, g] : captures.gradients) smallest = std::min(smallest, node->id());
  std::vector<const Node*> found;
  std::unordered_set<const Node*> seen;
  auto visit_node = [&](const Node* n) {
    if (n && n->id() >= smallest && seen.insert(n).second) found.push_back(n);
  };
  for (const Tensor& r : roots) visit_node(r.impl()->node.get());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (captures.stops_at(found[i])) continue;
    for (const NodeRef& e : found[i]->edges()) visit_node(e.get());
  }
  std::ranges::sort(found, {}, &Node::id);
  for (const Node* n : found) {
    if (captures.stops_at(n)) continue;
    for (const NodeRef& e : n->edges()) {
      if (e && captures.reaches(e.get())) captures.needed.insert(n);
    }
  }
}

}  // namespace

void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients, BackwardOptions o) {
  PendingGradients pending = start("backward", roots, gradients, o.create_graph);
  run(pending, o.retain_graph || o.create_graph, o.create_graph, nullptr);
}
void backward(const Tensor& root, const Tensor& gradient, BackwardOptions o) {
  backward(std::span(&root, 1), std::span(&gradient, 1), o);
}
void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  mantissa::backward(*this, gradient, {retain_graph, create_graph});
}

namespace autograd {
std::vector<Tensor> gradients_at(std::span<const Tensor> roots, std::span<const Tensor> gradients,
                                 std::span<const NodeRef> nodes, BackwardOptions o, bool stop) {
  Captures captures;
  captures.stop = stop;
  for (const NodeRef& n : nodes) captures.gradients[n.get()];
  PendingGradients pending = start("grad", roots, gradients, o.create_graph);
  mark_needed(roots, captures);
  run(pending, o.retain_graph || o.create_graph, o.create_graph, &captures);
  std::vector<Tensor> result;
  for (const NodeRef& n : nodes) result.push_back(captures.gradients[n.get()]);
  return result;
}
}  // namespace autograd

std::vector<Tensor> grad(std::span<const Tensor> roots, std::span<const Tensor> inputs,
                         std::span<const Tensor> gradients, GradOptions o) {
  std::vector<NodeRef> nodes;
  for (const Tensor& x : inputs) {
    check(x.requires_grad(), "grad: input ", x, " has no requires_grad");
    nodes.push_back(x.impl()->node);
  }
  std::vector<Tensor> result = autograd::gradients_at(roots, gradients, nodes, {o.retain_graph, o.create_graph});
  for (std::size_t i = 0; i < result.size(); ++i) {
    check(o.allow_unused || result[i].defined(), "grad: the roots do not depend on input ", inputs[i],
          "; pass allow_unused to get an undefined gradient instead");
  }
  return result;
}
std::vector<Tensor> grad(const Tensor& root, std::span<const Tensor> inputs, GradOptions o) {
  return grad(std::span(&root, 1), inputs, {}, o);
}
std::vector<Tensor> grad(const Tensor& root, std::initializer_list<Tensor> inputs, GradOptions o) {
  return grad(std::span(&root, 1), std::span(inputs.begin(), inputs.size()), {}, o);
}

}  // namespace mantissa
