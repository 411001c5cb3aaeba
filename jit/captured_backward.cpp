#include "jit/captured_backward.h"

#include <algorithm>
#include <utility>

#include "autograd/backward.h"
#include "autograd/boundary.h"
#include "autograd/grad_mode.h"
#include "autograd/results.h"
#include "core/flops.h"
#include "core/memory_order.h"
#include "core/recorded_memory.h"

namespace mantissa::jit {

using autograd::NodeRef;

class CapturedBackward::Node final : public autograd::Node {
 public:
  Node(std::shared_ptr<CapturedBackward> of, std::vector<NodeRef> edges, RngState at)
      : autograd::Node("captured step"), of_(std::move(of)), edges_(std::move(edges)), replay_(of_->replays_), at_(at) {
    set_edges(edges_.empty() ? of_->edges_ : edges_);
  }
  void backward(Tensor, std::span<Tensor> gradients, Pass) override {
    if (released_) autograd::fail_second_backward(name());
    check(!context().create_graph,
          "a captured step: second derivatives cannot pass through its result; take the first ones within the step");
    check(replay_ == of_->replays_,
          "a captured step was called again before the backward pass of its earlier result, whose values the later "
          "call has overwritten; call backward() before the next call, or capture a step of its own for each of them");
    const std::vector<Tensor>& found = of_->run(std::move(autograd::gradients_of_results(this)), at_);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].defined() && edges()[i]) gradients[i] = found[i].clone();
    }
  }
  void release_saved() override { released_ = true; }

 private:
  std::shared_ptr<CapturedBackward> of_;
  std::vector<NodeRef> edges_;  // empty: those of the recording
  std::uint64_t replay_;
  RngState at_;
  bool released_ = false;
};

namespace {
std::vector<autograd::SavedTensor*> saved_by(const std::vector<autograd::Node*>& nodes) {
  std::vector<autograd::SavedTensor*> all;
  for (autograd::Node* n : nodes) n->list_saved(all);
  return all;
}
std::vector<Dtype> leaf_dtypes(const std::vector<NodeRef>& edges) {
  std::vector<Dtype> dtypes;
  for (const NodeRef& e : edges) {
    if (e->is_leaf()) dtypes.push_back(static_cast<const autograd::LeafNode*>(e.get())->dtype());
  }
  return dtypes;
}
}  // namespace

CapturedBackward::CapturedBackward(const std::vector<Tensor>& results, const std::vector<Tensor>& inputs,
                                   std::uint64_t first, RngState start)
    : first_(first), start_(start) {
  for (const Tensor& y : results) {
    if (y.requires_grad()) roots_.push_back(y);
  }
  std::vector<autograd::Node*> nodes;
  edges_ = autograd::boundary_of(roots_, first, &nodes);
  for (autograd::SavedTensor* s : saved_by(nodes)) {
    if (!s->is_changed()) saved_.insert(s);  // what the step itself has changed since, a replay changes again
  }
  for (const NodeRef& e : edges_) {
    const auto at = std::ranges::find_if(inputs, [&](const Tensor& x) { return x.impl()->node.get() == e.get(); });
    input_of_edge_.push_back(at == inputs.end() ? -1 : static_cast<int>(at - inputs.begin()));
  }
}

std::vector<Tensor> CapturedBackward::attach(const std::shared_ptr<CapturedBackward>& backward,
                                             std::vector<Tensor> results, const std::vector<NodeRef>& inputs,
                                             RngState at) {
  CapturedBackward& b = *backward;
  ++b.replays_;
  for (autograd::SavedTensor* s : b.saved_) s->save_again();
  std::vector<NodeRef> edges;
  if (std::ranges::any_of(inputs, [](const NodeRef& n) { return static_cast<bool>(n); })) {
    edges = b.edges_;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (b.input_of_edge_[i] >= 0) edges[i] = inputs[static_cast<std::size_t>(b.input_of_edge_[i])];
    }
  }
  const NodeRef node(new Node(backward, std::move(edges), at));
  std::size_t root = 0;
  for (Tensor& y : results) {
    if (!y.requires_grad()) continue;
    y = y.detach();
    y.impl()->node = NodeRef(new autograd::ResultNode(node->name(), node, root++));
  }
  return results;
}

std::size_t CapturedBackward::bytes() const {
  std::size_t n = 0;
  for (const Pass& p : passes_) n += p.graph ? cuda_backend::graph_bytes(p.graph.get()) : 0;
  return n;
}

const std::vector<Tensor>& CapturedBackward::run(std::vector<Tensor> of_results, RngState at) {
  const NoGrad no_grad;
  of_results.resize(roots_.size());
  for (std::size_t k = seeds_.size(); k < roots_.size(); ++k) seeds_.push_back(empty_like(roots_[k].detach()));
  std::vector<cuda_backend::GraphInput> copies;
  for (std::size_t k = 0; k < seeds_.size(); ++k) {
    const Tensor &g = of_results[k], &to = seeds_[k];
    if (!g.defined() || g.numel() == 0) continue;
    const bool alike = g.dtype() == to.dtype() && is_dense(g) && g.layout() == to.layout();
    if (alike) copies.push_back({to.raw_data(), g.raw_data(), static_cast<std::size_t>(to.nbytes())});
    else Tensor(to).copy_(g);
  }
  Pass& pass = pass_from(of_results);
  // What has changed since the replay is an error, or a rule does without it: the recording finds out.
  const bool changed = std::ranges::any_of(pass.saved, &autograd::SavedTensor::is_changed);
  const bool replays = pass.graph && !changed && !cuda_backend::is_outdated(pass.graph.get()) &&
                       pass.dtypes == leaf_dtypes(edges_);  // an optimizer may have widened them
  if (!replays) record(pass);
  const CountedFlops counted(replays ? pass.flops : 0);
  cuda_backend::replay(pass.graph.get(), copies, at.seed, at.offset);
  return pass.found;
}

CapturedBackward::Pass& CapturedBackward::pass_from(const std::vector<Tensor>& of_results) {
  std::vector<bool> from;
  for (const Tensor& g : of_results) from.push_back(g.defined());
  const auto at = std::ranges::find(passes_, from, &Pass::from);
  return at != passes_.end() ? *at : passes_.emplace_back(Pass{std::move(from), {}, {}, 0, {}, {}});
}

void CapturedBackward::record(Pass& pass) {
  pass.found.clear();
  pass.saved.clear();
  pass.dtypes = leaf_dtypes(edges_);
  pass.graph.reset(cuda_backend::make_graph());
  const FlopCounter flops;
  std::vector<Tensor> roots, seeds;
  for (std::size_t k = 0; k < roots_.size(); ++k) {
    if (pass.from[k]) roots.push_back(roots_[k]), seeds.push_back(seeds_[k]);
  }
  std::vector<autograd::Node*> nodes;
  (void)autograd::boundary_of(roots, first_, &nodes);
  for (autograd::SavedTensor* s : saved_by(nodes)) {
    if (saved_.contains(s)) pass.saved.push_back(s);
  }
  const RngState before = rng_state();
  try {
    const amp::ShadowPins::Recording pinning(pins_);
    cuda_backend::begin_recording(pass.graph.get(), start_.seed, start_.offset);
    pass.found = autograd::gradients_at(roots, seeds, edges_, {.retain_graph = true}, true);
    check(rng_state().offset == before.offset, "the backward pass of a captured step cannot draw new random numbers");
    cuda_backend::end_recording(pass.graph.get());
    pass.flops = flops.count();
  } catch (...) {
    cuda_backend::give_up_recording(pass.graph.get());
    pass.found.clear();
    pass.graph.reset();
    throw;
  }
}

}  // namespace mantissa::jit
