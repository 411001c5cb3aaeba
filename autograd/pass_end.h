// Callbacks for the end of a backward pass: for hooks that start background work (nn/data_parallel.h), or wait for the
// last of many leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"

namespace mantissa::autograd {

// From a hook: `f` is called once, in this thread, when the running backward() has reached all leaves. It is not called
// if backward() throws.
void at_end_of_backward(std::function<void()> f);
// A unique number of the backward() running in this thread; 0 outside.
std::uint64_t backward_number();

// For the engine. Nested passes belong to the outermost one.
class RunningPass {
 public:
  RunningPass();
  ~RunningPass();
  RunningPass(const RunningPass&) = delete;
  void end();

 private:
  friend std::vector<Tensor>& gradients_of_results(const Node* node);
  RunningPass* around_;
  std::unordered_map<const Node*, std::vector<Tensor>> of_results_;
};
// For a node with several results (autograd/results.h): the gradients of its results found so far by this thread's
// innermost pass, initially empty.
std::vector<Tensor>& gradients_of_results(const Node* node);

}  // namespace mantissa::autograd
