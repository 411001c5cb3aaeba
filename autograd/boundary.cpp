#include "autograd/boundary.h"

#include <unordered_set>
#include <utility>

namespace mantissa::autograd {

std::vector<NodeRef> boundary_of(std::span<const Tensor> results, std::uint64_t first, std::vector<Node*>* found) {
  std::vector<NodeRef> boundary;
  std::vector<Node*> inside;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](const NodeRef& n) {
    if (!n || !seen.insert(n.get()).second) return;
    if (n->id() < first) boundary.push_back(n);
    else inside.push_back(n.get());
  };
  for (const Tensor& y : results) {
    if (y.defined()) visit(y.impl()->node);
  }
  for (std::size_t i = 0; i < inside.size(); ++i) {
    for (const NodeRef& e : inside[i]->edges()) visit(e);
  }
  if (found) *found = std::move(inside);
  return boundary;
}

}  // namespace mantissa::autograd
