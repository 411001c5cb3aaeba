// Differentiation. backward(loss) adds d loss / d leaf to the .grad() of every leaf that loss was computed from; grad()
// returns the gradients of given tensors and modifies no .grad(). Behaviour, names and defaults follow torch.autograd.
#pragma once

#include <concepts>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace mantissa {

struct BackwardOptions {
  bool retain_graph = false;  // keep the saved tensors, so that backward can run again
  // Record the backward pass itself, for higher derivatives. Implies retain_graph. A leaf's .grad() then holds a graph
  // that holds the leaf, a reference cycle: break it with zero_grad() or set_grad({}), or use grad(), whose results
  // cause no cycle.
  bool create_graph = false;
};

// `gradient` is d (final result) / d root and may be omitted for a root of one element. Throws if the root requires no
// gradient or its graph has been freed.
void backward(const Tensor& root, const Tensor& gradient = {}, BackwardOptions = {});
void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients, BackwardOptions = {});

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;  // inputs that the roots do not depend on give undefined instead of an error
};
std::vector<Tensor> grad(std::span<const Tensor> roots, std::span<const Tensor> inputs,
                         std::span<const Tensor> gradients = {}, GradOptions = {});
std::vector<Tensor> grad(const Tensor& root, std::span<const Tensor> inputs, GradOptions = {});  // nn::parameters(net)
std::vector<Tensor> grad(const Tensor& root, std::initializer_list<Tensor> inputs, GradOptions = {});
// For a root with several elements, with its gradient as in backward(): grad(u, {x}, ones_like(u)). (Templates, so that
// {} still means the options.)
template <std::derived_from<Tensor> T>
std::vector<Tensor> grad(const Tensor& root, std::span<const Tensor> inputs, const T& gradient, GradOptions o = {}) {
  const Tensor given = gradient;
  return grad(std::span(&root, 1), inputs, std::span(&given, 1), o);
}
template <std::derived_from<Tensor> T>
std::vector<Tensor> grad(const Tensor& root, std::initializer_list<Tensor> inputs, const T& gradient,
                         GradOptions o = {}) {
  return grad(root, std::span(inputs.begin(), inputs.size()), gradient, o);
}
// One input needs no braces: grad(u, x)[0].
template <std::derived_from<Tensor> T>
std::vector<Tensor> grad(const Tensor& root, const T& input, GradOptions o = {}) {
  return grad(root, std::span<const Tensor>(&input, 1), o);
}
template <std::derived_from<Tensor> T, std::derived_from<Tensor> G>
std::vector<Tensor> grad(const Tensor& root, const T& input, const G& gradient, GradOptions o = {}) {
  return grad(root, std::span<const Tensor>(&input, 1), gradient, o);
}

namespace autograd {
// The implementation of grad(): the gradients that arrive at `nodes`, undefined where none does. Runs only the nodes in
// between. For nodes that differentiate inside their own backward (autograd/checkpoint.cpp): with `stop` it does not
// continue past any of `nodes`, even to another one of them, nor calls their hooks: the outer pass does both.
std::vector<Tensor> gradients_at(std::span<const Tensor> roots, std::span<const Tensor> gradients,
                                 std::span<const NodeRef> nodes, BackwardOptions = {}, bool stop = false);
}  // namespace autograd

}  // namespace mantissa
