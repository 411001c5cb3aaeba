// A checkpoint is a node whose edges are the boundary: everything outside that the computation depends on. It is found
// by recording fn once in forward and dropping the record; backward records fn again and asks the engine for the
// gradients at the boundary, which propagate like those of any node.
#include "autograd/checkpoint.h"

#include "autograd/backward.h"
#include "autograd/boundary.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "core/context.h"
#include "core/random.h"

namespace mantissa {
namespace {

using autograd::Node;
using autograd::NodeRef;
using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// Temporarily restores the modes and random state of forward.
class Replay {
 public:
  Replay(const Context& modes, RngState random) : modes_(context()), random_(random), scope_(random_) {
    context() = modes;
  }
  ~Replay() { context() = modes_; }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  Context modes_;
  RngState random_;
  RandomScope scope_;
};

class CheckpointNode final : public Node {
 public:
  CheckpointNode(Function fn, const std::vector<Tensor>& inputs, std::vector<NodeRef> boundary, RngState random,
                 const Dims& sizes)
      : Node("checkpoint"),
        fn_(std::move(fn)),
        boundary_(std::move(boundary)),
        modes_(context()),
        random_(random),
        sizes_(sizes) {
    for (const Tensor& x : inputs) saved_.emplace_back().save(x);
    set_edges(boundary_);
  }

  void backward(Tensor g, std::span<Tensor> gradients, Pass) override {
    if (released_) autograd::fail_second_backward(name());
    std::vector<Tensor> inputs;
    for (const auto& s : saved_) inputs.push_back(s.unpack(name(), "input"));
    const bool create_graph = context().create_graph;
    Tensor y;
    {
      const Replay replay(modes_, random_);
      y = fn_(inputs);
    }
    check(y.requires_grad() && y.sizes() == sizes_, "the function gave ", y, " instead of shape ", sizes_,
          " when it ran again; it must compute the same each time");
    std::vector<Tensor> found =
        autograd::gradients_at(std::span(&y, 1), std::span(&g, 1), boundary_, {.create_graph = create_graph}, true);
    for (std::size_t i = 0; i < found.size(); ++i) gradients[i] = std::move(found[i]);
  }

  void list_saved(std::vector<autograd::SavedTensor*>& all) override {
    for (autograd::SavedTensor& s : saved_) all.push_back(&s);
  }
  void release_saved() override {
    released_ = true;
    saved_.clear();
    fn_ = nullptr;
  }

 private:
  Function fn_;
  std::vector<autograd::SavedTensor> saved_;
  std::vector<NodeRef> boundary_;
  Context modes_;
  RngState random_;
  Dims sizes_;
  bool released_ = false;
};

}  // namespace

Tensor checkpoint(Function fn, std::vector<Tensor> inputs) {
  if (!grad_enabled()) return fn(inputs);
  const std::uint64_t first = Node::next_id();
  const RngState random = rng_state();
  const Tensor recorded = fn(inputs);
  check(recorded.defined(), "checkpoint: the function returned an undefined tensor");
  Tensor y = recorded.detach();
  if (!recorded.requires_grad()) return y;
  std::vector<NodeRef> boundary = autograd::boundary_of(std::span(&recorded, 1), first);
  y.impl()->node = NodeRef(new CheckpointNode(std::move(fn), inputs, std::move(boundary), random, y.sizes()));
  return y;
}

}  // namespace mantissa
