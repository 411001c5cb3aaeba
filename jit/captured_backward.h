// The backward pass of a captured step that leaves it to the caller, as one that only computes a net's outputs or its
// loss: a graph of its own, recorded when the results of the recorded step are first differentiated. As
// torch.cuda.make_graphed_callables, which records it beforehand.
#pragma once

#include <memory>
#include <unordered_set>
#include <vector>

#include "amp/shadow_pins.h"
#include "autograd/node.h"
#include "core/accelerator.h"
#include "core/random.h"

namespace mantissa::jit {

struct DestroyGraph {
  void operator()(cuda_backend::Graph* g) const { cuda_backend::destroy_graph(g); }
};
using GraphHandle = std::unique_ptr<cuda_backend::Graph, DestroyGraph>;

class CapturedBackward {
 public:
  // results: of the recorded step, computed by nodes with ids from `first` on. inputs: the memory that it reads, which
  // requires a gradient where the caller's does. start: the random numbers with which it was recorded.
  CapturedBackward(const std::vector<Tensor>& results, const std::vector<Tensor>& inputs, std::uint64_t first,
                   RngState start);

  // After a replay and what it announced: `results` such that their gradients go to the weights and, where there are
  // any, to these nodes of the caller's inputs. at: the random numbers of the replay.
  static std::vector<Tensor> attach(const std::shared_ptr<CapturedBackward>& backward, std::vector<Tensor> results,
                                    const std::vector<autograd::NodeRef>& inputs, RngState at);
  std::size_t bytes() const;

 private:
  class Node;
  // From the gradients of some of the results: which ones, and the gradients of edges_, undefined where there are none.
  struct Pass {
    std::vector<bool> from;
    GraphHandle graph;
    std::vector<Tensor> found;
    double flops = 0;
    std::vector<Dtype> dtypes;                        // of the leaves among edges_, which gradients fit
    std::vector<const autograd::SavedTensor*> saved;  // what it reads of saved_
  };
  // The gradients of edges_, in memory that the next call overwrites.
  const std::vector<Tensor>& run(std::vector<Tensor> of_results, RngState at);
  Pass& pass_from(const std::vector<Tensor>& of_results);
  void record(Pass& pass);

  std::vector<Tensor> roots_, seeds_;  // the results that have a gradient, and the memory for it
  std::vector<autograd::NodeRef> edges_;
  std::vector<int> input_of_edge_;     // -1: a weight
  std::uint64_t first_;                // id of the step's first node
  std::unordered_set<autograd::SavedTensor*> saved_;  // what a replay of the step saves anew
  RngState start_;
  std::uint64_t replays_ = 0;          // of the step: the values that the graph needs are those of the last one
  std::vector<Pass> passes_;
  amp::ShadowPins pins_;
};

}  // namespace mantissa::jit
