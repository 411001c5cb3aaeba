// Who is told, in this thread, which gradients are read and replaced: a captured step, which finds them and leaves them
// as if they were inputs and results (jit/step_gradients.h).
#pragma once

#include <atomic>

namespace mantissa::autograd {

class LeafNode;

class LeafWatch {
 public:
  // Before the gradient of `leaf` is read or added to or, if `reads` is false, replaced unread.
  virtual void before_use(LeafNode& leaf, bool reads) = 0;

 protected:
  ~LeafWatch() = default;
};
inline constinit thread_local LeafWatch* leaf_watch = nullptr;
inline constinit std::atomic<int> leaf_watches{0};  // of all threads: looked at first, which costs less

// Whether the host's code of a captured step runs, which replays will not repeat.
inline bool is_in_captured_step() {
  return leaf_watches.load(std::memory_order_relaxed) > 0 && leaf_watch != nullptr;
}
inline void tell_watch(LeafNode& leaf, bool reads) {
  if (is_in_captured_step()) [[unlikely]] leaf_watch->before_use(leaf, reads);
}

}  // namespace mantissa::autograd
