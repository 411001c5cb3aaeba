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

// The loss scales that a leaf's gradient carries, as ids assigned by the loss scaler (amp/scale_ledger.h): one for each
// scale among the losses whose gradients were summed. Empty: unknown, e.g. if the gradient was set by hand.
struct GradientTags {
  std::vector<std::uint64_t> tags;
  std::uint32_t version = 0;  // of the gradient's storage when the tags were set: if it differs, the
                              // gradient has been changed since
};
// Called from a hook: the gradients of this thread's running backward pass also carry this scale.
void tag_running_backward(std::uint64_t tag);

class RunningTags {  // tags of a backward pass, initially none
 public:
  RunningTags();
  ~RunningTags();
  RunningTags(const RunningTags&) = delete;
  RunningTags& operator=(const RunningTags&) = delete;

 private:
  std::vector<std::uint64_t> before_;
};

// Scaling that an optimizer applied to a leaf's gradient while reading it, but not yet in memory (amp/grad_scaler.h).
// It is applied before anyone else reads the gradient or adds to it.
struct PendingScaling {
  Tensor scale;         // f32, 0-d: divide the gradient by it; undefined: nothing is pending
  Tensor norm;          // f32, 0-d, norm of all gradients: then clip to max_norm; undefined: do not clip
  double max_norm = 0;
  // recorded in a graph, each replay of which writes the gradient anew: outside it is read as a scaled copy
  bool recorded = false;
};
// Whether only the leaf itself holds its gradient: only then may scaling be left pending.
bool holds_gradient_alone(const Tensor& leaf);
void leave_pending(const Tensor& leaf, PendingScaling pending);

struct Hooks {
  std::vector<std::function<Tensor(const Tensor&)>> on_grad;
  std::vector<std::function<void(const Tensor&)>> on_accumulated;
  GradientTags tags;
  PendingScaling pending;
  bool calls() const { return !on_grad.empty() || !on_accumulated.empty(); }
};
// The leaf's gradient with pending scaling applied: in memory, or in a copy (PendingScaling::recorded).
Tensor settled_gradient(LeafNode& leaf);
Node& node_for_hook(const Tensor& x);  // throws if x takes no part in differentiation

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
