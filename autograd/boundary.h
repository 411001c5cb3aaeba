// A piece of the graph: its nodes, and its boundary, the nodes outside of it to which gradients go, such as weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/node.h"

namespace mantissa::autograd {

// The nodes with ids below `first` that the results were computed from, each once. `inside`, if given, receives those
// in between.
std::vector<NodeRef> boundary_of(std::span<const Tensor> results, std::uint64_t first,
                                 std::vector<Node*>* inside = nullptr);

}  // namespace mantissa::autograd
