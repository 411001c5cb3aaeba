// The boundary of a piece of the graph: the nodes outside of it to which its gradients go, such as weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/node.h"

namespace mantissa::autograd {

// The nodes with ids below `first` that the results were computed from, each once.
std::vector<NodeRef> boundary_of(std::span<const Tensor> results, std::uint64_t first);

}  // namespace mantissa::autograd
