// The engine. `ready` maps node id -> (node, gradient summed so far); the largest id is next,
// because every consumer of a node has a larger id and has therefore already contributed.
#include "autograd/backward.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "autograd/anomaly.h"
#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/last_owner.h"
#include "autograd/node.h"
#include "autograd/part.h"
#include "autograd/pass_end.h"
#include "core/context.h"
#include "core/kernel.h"
#include "core/ops.h"
#include "core/profile.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)

namespace {

using autograd::LeafNode;
using autograd::Node;
using autograd::NodeRef;
using autograd::Part;
using autograd::part_of;

struct Pending {
  NodeRef node;
  Tensor gradient;
  bool own_sum = false;  // `gradient` is a sum made here: later terms may be added in place
  const Node* from = nullptr;
  // of a gradient put together from parts that lie side by side, until it is whole: only the indices
  int part_dim = -1;
  std::int64_t part_begin = 0, part_end = 0;  // from part_begin to part_end of this dimension have values
  bool in_place = false;  // a rule wrote the parts into this memory: what has not come yet is there and still needed
};
template <class T> struct PoolAllocator {  // so that a backward pass asks the system for nothing
  using value_type = T;
  PoolAllocator() = default;
  template <class U> PoolAllocator(const PoolAllocator<U>&) {}
  // a map's elements come one by one
  T* allocate(std::size_t) { return static_cast<T*>(BlockPool<sizeof(T)>::take()); }
  void deallocate(T* p, std::size_t) noexcept { BlockPool<sizeof(T)>::give(p); }
  friend bool operator==(const PoolAllocator&, const PoolAllocator&) = default;
};
using Ready = std::map<std::uint64_t, Pending, std::greater<>, PoolAllocator<std::pair<const std::uint64_t, Pending>>>;

struct Captures {
  std::unordered_map<const Node*, Tensor> gradients;  // the nodes of grad()'s inputs
  std::unordered_set<const Node*> needed;             // nodes with an edge on the way to one of them
  bool stop = false;                                  // what lies behind one of them is not walked
  bool reaches(const Node* n) const { return gradients.contains(n) || needed.contains(n); }
  bool stops_at(const Node* n) const { return stop && gradients.contains(n); }
};

// A dense result that nobody else sees.
bool is_fresh(const Tensor& g) {
  return autograd::held_alone(g) && !g.requires_grad() && g.strides() == dense_strides(g.sizes(), g.layout());
}

// Memory of its own for parts that have come in place, before anything else is written between them: somebody may have
// the others.
void leave_place(Pending& p) {
  if (!std::exchange(p.in_place, false) || autograd::held_alone(p.gradient)) return;
  const Tensor shared = p.gradient;
  p.gradient = Tensor::allocate(shared.sizes(), shared.dtype(), shared.device());
  const Part come{shared.sizes(), p.part_dim, p.part_begin, p.part_end - p.part_begin};
  kernels::copy(shared.device(), part_of(p.gradient, come).view(), part_of(shared, come).view());
  p.own_sum = true;
}

// Zeros where no part has come.
void make_whole(Pending& p) {
  if (p.part_dim < 0) return;
  leave_place(p);
  const std::int64_t size = p.gradient.size(p.part_dim);
  for (const auto& [from, to] : {std::pair(std::int64_t{0}, p.part_begin), std::pair(p.part_end, size)}) {
    if (from == to) continue;
    const Tensor rest = part_of(p.gradient, {p.gradient.sizes(), p.part_dim, from, to - from});
    kernels::fill(rest.device(), rest.view(), 0.0);
  }
  p.part_dim = -1;
}

void contribute(Ready& ready, const NodeRef& node, Tensor g, bool create_graph, const Node* from) {
  auto [it, first] = ready.try_emplace(node->id());
  Pending& p = it->second;
  if (first) {
    p = {.node = node, .gradient = std::move(g), .from = from};
  } else {
    make_whole(p);
    const auto fits = [](const Tensor& to, const Tensor& other) {
      return promote(to.dtype(), other.dtype()) == to.dtype();
    };
    if (!create_graph && fits(p.gradient, g) && (p.own_sum || is_fresh(p.gradient))) {
      p.gradient.add_(g);
    } else if (!create_graph && fits(g, p.gradient) && is_fresh(g)) {
      g.add_(p.gradient);
      p.gradient = std::move(g);
    } else {
      p.gradient = add(p.gradient, g);  // recorded under create_graph
    }
    p.own_sum = true;
  }
}

void contribute_part(Ready& ready, const NodeRef& node, const Tensor& g, const Part& part, const Node* from) {
  if (part.count == part.sizes[part.dim]) return contribute(ready, node, g, false, from);
  const std::int64_t end = part.begin + part.count;
  auto [it, first] = ready.try_emplace(node->id());
  Pending& p = it->second;
  const bool in_place = autograd::lies_in_place(g, part);
  if (first) {
    p = {.node = node,
         .gradient = in_place ? autograd::whole_around(g, part) : Tensor::allocate(part.sizes, g.dtype(), g.device()),
         .own_sum = !in_place, .from = from, .part_dim = part.dim, .part_begin = part.begin, .part_end = part.begin,
         .in_place = in_place};
    if (part.step > 1) make_whole(p);
  }
  const bool beside = p.part_dim == part.dim && part.step == 1 && g.dtype() == p.gradient.dtype() &&
                      (part.begin == p.part_end || end == p.part_begin);
  if (beside) {
    if (!(in_place && g.storage() == p.gradient.storage())) {
      leave_place(p);
      if (g.numel() > 0) kernels::copy(g.device(), part_of(p.gradient, part).view(), g.view());
    }
    p.part_begin = std::min(p.part_begin, part.begin);
    p.part_end = std::max(p.part_end, end);
    if (p.part_begin == 0 && p.part_end == part.sizes[part.dim]) p.part_dim = -1;
    return;
  }
  make_whole(p);
  if ((p.own_sum || is_fresh(p.gradient)) && promote(p.gradient.dtype(), g.dtype()) == p.gradient.dtype()) {
    part_of(p.gradient, part).add_(g);
    p.own_sum = true;
  } else {
    Tensor whole = zeros(part.sizes, {.dtype = g.dtype(), .device = g.device()});
    part_of(whole, part).add_(g);
    contribute(ready, node, std::move(whole), false, from);
  }
}

// Hands what has arrived at the node of input 0 to a node that adds to it as it computes.
void take_arrived(Ready& ready, const Node& node, std::span<Tensor> grads) {
  const InputMeta* input = node.adds_to();
  if (!input || !node.edges()[0]) return;
  const auto it = ready.find(node.edges()[0]->id());
  // a gradient that is put together of parts waits for the rest
  if (it == ready.end() || it->second.part_dim >= 0) return;
  Tensor& g = it->second.gradient;
  if (g.dtype() != input->dtype || !(g.device() == input->device) || !g.is_contiguous()) return;
  grads[0] = std::move(g);
  ready.erase(it);
}

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

// Anomaly mode: for each node that ran, the node that first sent it a gradient.
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

class ModeGuard {  // backward runs in the dtypes of the forward, whatever region it is called from
 public:
  explicit ModeGuard(bool create_graph) : before_(context()) {
    context().grad_enabled = context().create_graph = create_graph;
    context().autocast = {.depth = before_.autocast.depth};
    context().anomaly = false;  // a rule may pass through a NaN that it masks: only its result counts
  }
  ~ModeGuard() { context() = before_; }
  bool anomaly() const { return before_.anomaly; }

 private:
  Context before_;
};

void run(Ready& ready, bool retain_graph, bool create_graph, Captures* captures) {
  const ProfileRange range(ProfileKind::library, "backward");
  const ModeGuard modes(create_graph);
  const autograd::RunningTags tags;
  autograd::RunningPass whole;
  // Anomaly mode looks at every gradient, so rules return theirs.
  const Node::Pass pass{!retain_graph, !captures && !create_graph && !modes.anomaly()};
  Parents parents;
  Part part;  // one for all nodes: most are none
  Tensor few[8];
  std::vector<Tensor> many;
  while (!ready.empty()) {
    Pending p = std::move(ready.begin()->second);
    ready.erase(ready.begin());
    make_whole(p);
    Node& node = *p.node.get();
    if (node.is_leaf()) {  // a shadow's gradient comes in the shadow's dtype; hooks and grad() see the leaf's
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
    if (!create_graph && !modes.anomaly() && node.is_part(part)) {
      if (edges[0] && (!captures || captures->reaches(edges[0].get())))
        contribute_part(ready, edges[0], p.gradient, part, &node);
      continue;
    }
    if (edges.size() > std::size(few)) many.resize(edges.size());
    const std::span<Tensor> grads(edges.size() > std::size(few) ? many.data() : few, edges.size());
    std::ranges::fill(grads, Tensor());
    if (!create_graph && !modes.anomaly()) take_arrived(ready, node, grads);
    const ProfileRange rule(ProfileKind::backward, node.name(), &p.gradient);
    try {
      node.backward(std::move(p.gradient), grads, pass);
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
      contribute(ready, edges[i], std::move(grads[i]), create_graph, &node);
    }
  }
  whole.end();
}

Ready start(std::span<const Tensor> roots, std::span<const Tensor> gradients, bool create_graph) {
  check(gradients.empty() || gradients.size() == roots.size(), "backward: ", static_cast<int>(gradients.size()),
        " gradients given for ", static_cast<int>(roots.size()), " roots");
  Ready ready;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const Tensor& root = roots[i];
    check(root.defined(), "backward: the root is an undefined tensor");
    check(root.requires_grad(), "backward: ", root,
          " needs no gradient: no input of its computation has requires_grad, or it ran under NoGrad");
    Tensor g = i < gradients.size() ? gradients[i] : Tensor();
    if (!g.defined()) {
      check(root.numel() == 1, "backward: ", root,
            " has more than one element; reduce it (sum, mean) or pass its gradient");
      g = ones_like(root);
    }
    check(g.sizes() == root.sizes(), "backward: the gradient has shape ", g.sizes(), ", the root ", root.sizes());
    if (g.dtype() != root.dtype()) g = cast(g, root.dtype());
    contribute(ready, root.impl()->node, g, create_graph, nullptr);
  }
  return ready;
}

// Marks every node with an edge that leads to one of the captured nodes; only these run. No captured
// node has a smaller id than the smallest of them, so the search stops there.
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
  std::sort(found.begin(), found.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
  for (const Node* n : found) {
    if (captures.stops_at(n)) continue;
    for (const NodeRef& e : n->edges()) {
      if (e && captures.reaches(e.get())) captures.needed.insert(n);
    }
  }
}

}  // namespace

void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients, BackwardOptions o) {
  Ready ready = start(roots, gradients, o.create_graph);
  run(ready, o.retain_graph || o.create_graph, o.create_graph, nullptr);
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
  Ready ready = start(roots, gradients, o.create_graph);
  mark_needed(roots, captures);
  run(ready, o.retain_graph || o.create_graph, o.create_graph, &captures);
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
