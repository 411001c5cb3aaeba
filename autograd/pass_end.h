// What is to be done when a backward pass has ended: for hooks that begin something in the background
// (nn/data_parallel.h), or wait for the last of many leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"

namespace mantissa::autograd {

// From a hook: `f` is called once, in this thread, when the backward() that runs has reached all leaves. It is not
// called when that throws.
void at_end_of_backward(std::function<void()> f);
// The number of the backward() that runs in this thread, another for each; 0 outside.
std::uint64_t backward_number();

// Of the engine. Passes inside a pass belong to the outermost.
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
// For a node with several results (autograd/results.h): what the innermost pass that runs in this thread has found of
// their gradients, empty at first.
std::vector<Tensor>& gradients_of_results(const Node* node);

}  // namespace mantissa::autograd
