// Calls a module with other tensors in place of its parameters, as torch.func.functional_call: for parameters that are
// themselves computed, so that gradients flow through them.
//
//   std::vector<Tensor> fast = nn::parameters(net);                      // MAML: a step of gradient descent ...
//   const auto gradients = grad(loss, fast, {.create_graph = true});
//   for (std::size_t i = 0; i < fast.size(); ++i) fast[i] = fast[i] - 0.01 * gradients[i];
//   Tensor y = nn::functional_call(net, fast, x);                        // ... and the net with the updated parameters
//   y = nn::functional_call(net, {{"out.weight", w}}, x);                // some of them, by name
//
// The module is modified during the call and restored afterwards, also after an exception: do not use with a module
// that several threads call.
#pragma once

#include <utility>
#include <vector>

#include "nn/functions.h"

namespace mantissa::nn {

// While it exists the module's parameters are `tensors`: either all of them, in the order of nn::parameters, or some
// parameters and buffers by name. Shapes must match. A tied parameter is replaced under all its names. Nothing is
// copied, so a call that updates buffers updates the given tensors.
class [[nodiscard]] Substituted {
 public:
  Substituted(ModuleRef module, const std::vector<Tensor>& tensors);
  Substituted(ModuleRef module, const NamedTensors& tensors);
  ~Substituted();
  Substituted(const Substituted&) = delete;
  Substituted& operator=(const Substituted&) = delete;

 private:
  std::vector<std::pair<Tensor*, Tensor>> before_;  // the module's original tensors
};

template <Modules M, class... Arguments>
decltype(auto) functional_call(M& module, const std::vector<Tensor>& parameters, Arguments&&... arguments) {
  const Substituted scope(module, parameters);
  return module(std::forward<Arguments>(arguments)...);
}
template <Modules M, class... Arguments>
decltype(auto) functional_call(M& module, const NamedTensors& tensors, Arguments&&... arguments) {
  const Substituted scope(module, tensors);
  return module(std::forward<Arguments>(arguments)...);
}

}  // namespace mantissa::nn
