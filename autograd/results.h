// Nodes of functions with several results (ops/function.h). The engine handles one gradient per node, so each result
// has its own node, which stores its gradient in the running pass and has an edge to the function's node. That has a
// smaller id, so it runs after all of them, with the gradients they stored.
#pragma once

#include <utility>
#include <vector>

#include "autograd/node.h"
#include "autograd/pass_end.h"

namespace mantissa::autograd {

class ResultNode final : public Node {
 public:
  ResultNode(const char* name, NodeRef function, std::size_t index)
      : Node(name), function_(std::move(function)), index_(index) {
    set_edges({&function_, 1});
  }
  void backward(Tensor g, std::span<Tensor> gradients, Pass) override {
    auto& found = gradients_of_results(function_.get());
    if (found.size() <= index_) found.resize(index_ + 1);
    found[index_] = std::move(g);
    gradients[0] = Tensor::allocate({0}, f32);  // placeholder: there is something to do
  }

 private:
  NodeRef function_;
  std::size_t index_;
};

// For gradients that were computed without recording but depend on the inputs: differentiating them is an error.
class OnceNode final : public Node {
 public:
  OnceNode(const char* name, std::vector<NodeRef> edges) : Node(name), edges_(std::move(edges)) { set_edges(edges_); }
  void backward(Tensor, std::span<Tensor>, Pass) override {
    fail(name(), ": is once_differentiable, so that its gradient has no gradient of its own");
  }

 private:
  std::vector<NodeRef> edges_;
};

}  // namespace mantissa::autograd
