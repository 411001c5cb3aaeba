// The gradients of leaves that a step reads, adds to or replaces: inputs and results of a captured step beside its own.
// A recording adds to a gradient at the address where it found it, or makes one if there was none; so it fits only
// where gradients are as it found them, and after a replay the leaves must hold what the step leaves.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/hooks.h"
#include "autograd/leaf_watch.h"
#include "autograd/node.h"

namespace mantissa::jit {

class StepGradients {
 public:
  // While it exists, what the step of this thread uses is noted.
  class Watch final : public autograd::LeafWatch {
   public:
    explicit Watch(StepGradients& gradients);
    ~Watch();
    Watch(const Watch&) = delete;
    void before_use(autograd::LeafNode& leaf, bool reads) override;

   private:
    StepGradients& gradients_;
    autograd::LeafWatch* before_;
    const std::uint64_t first_;  // nodes from this id on are made within the step, and of no concern to the next call
  };

  bool are_as_found() const;
  // After the step was recorded: keeps the memory of the gradients that it made, whatever becomes of the leaves'.
  void keep_left();
  // After a replay.
  void put_back() const;

 private:
  struct Leaf {
    autograd::NodeRef node;
    Dtype dtype;                  // of gradients that the step makes
    bool matters = false;         // what was found: not if the step replaced it unread
    const void* found = nullptr;  // address of the gradient; null: there was none
    Dtype found_dtype = f32;
    Layout found_layout = Layout::contiguous;
    bool stays = false;  // the step leaves the gradient where it found it
    Tensor left;         // otherwise; undefined: it leaves none
    autograd::GradientTags tags;
    autograd::PendingScaling pending;
  };
  static autograd::LeafNode& node_of(const Leaf& leaf) { return static_cast<autograd::LeafNode&>(*leaf.node.get()); }
  std::vector<Leaf> leaves_;
};

}  // namespace mantissa::jit
