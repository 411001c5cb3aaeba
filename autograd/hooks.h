// Functions called during backward.
//   x.on_grad([](const Tensor& g) { ...; return Tensor{}; })   before x's gradient is passed on; a
//                                                              defined result replaces it
//   on_accumulated(leaf, [](Tensor grad) { ... })              after a leaf's .grad() was updated:
//                                                              all-reduce or optimizer in backward
#pragma once

#include <functional>
#include <vector>

#include "autograd/node.h"

namespace mantissa {
namespace autograd {

// Which loss scales the gradient of a leaf carries, as numbers that the loss scaler gives out
// (amp/scale_ledger.h): one for each scale among the losses whose gradients were summed. Empty: not known, as
// when it was set by hand.
struct GradientTags {
  std::vector<std::uint64_t> tags;
  std::uint32_t version = 0;  // of the gradient's storage when they were noted: if it has another, somebody
                              // has changed the gradient since
};
// Called from a hook: the gradients of the backward pass that runs in this thread carry this scale too.
void tag_running_backward(std::uint64_t tag);

class RunningTags {  // a backward pass starts without tags
 public:
  RunningTags();
  ~RunningTags();
  RunningTags(const RunningTags&) = delete;
  RunningTags& operator=(const RunningTags&) = delete;

 private:
  std::vector<std::uint64_t> before_;
};

// What an optimizer has done to a leaf's gradient while it read it, and not yet in memory (amp/grad_scaler.h). Whoever
// asks for the gradient, or adds to it, finds it done.
struct PendingScaling {
  Tensor scale;         // f32, 0-d: the gradient is to be divided by it; undefined: nothing is pending
  Tensor norm;          // f32, 0-d, of all gradients: then clip to max_norm; undefined: do not
  double max_norm = 0;
  // by a graph, whose every replay writes the gradient anew: outside it is read as a scaled copy
  bool recorded = false;
};
// Whether nobody but the leaf itself holds its gradient: only then may something be left pending.
bool holds_gradient_alone(const Tensor& leaf);
void leave_pending(const Tensor& leaf, PendingScaling pending);

struct Hooks {
  std::vector<std::function<Tensor(const Tensor&)>> on_grad;
  std::vector<std::function<void(const Tensor&)>> on_accumulated;
  GradientTags tags;
  PendingScaling pending;
  bool calls() const { return !on_grad.empty() || !on_accumulated.empty(); }
};
// The leaf's gradient with nothing pending: in memory, or a copy (PendingScaling::recorded).
Tensor settled_gradient(LeafNode& leaf);
Node& node_for_hook(const Tensor& x);  // throws when x takes no part in differentiation

}  // namespace autograd

template <class F> void Tensor::on_grad(F hook) const {
  autograd::node_for_hook(*this).hooks().on_grad.emplace_back([hook](const Tensor& g) -> Tensor {
    if constexpr (std::is_void_v<decltype(hook(g))>) {
      hook(g);
      return {};
    } else {
      return hook(g);
    }
  });
}
void on_accumulated(const Tensor& leaf, std::function<void(const Tensor&)> hook);

}  // namespace mantissa
