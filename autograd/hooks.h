// Functions called during backward.
//   x.on_grad([](const Tensor& g) { ...; return Tensor{}; })   before x's gradient is passed on; a
//                                                              defined result replaces it
//   on_accumulated(leaf, [](Tensor grad) { ... })              after a leaf's .grad() was updated:
//                                                              all-reduce or optimizer in backward
#pragma once

#include <functional>
#include <vector>

#include "autograd/node.h"

namespace mantissa {
namespace autograd {

struct Hooks {
  std::vector<std::function<Tensor(const Tensor&)>> on_grad;
  std::vector<std::function<void(const Tensor&)>> on_accumulated;
};
Node& node_for_hook(const Tensor& x);  // throws when x takes no part in differentiation

}  // namespace autograd

template <class F> void Tensor::on_grad(F hook) const {
  autograd::node_for_hook(*this).hooks().on_grad.emplace_back([hook](const Tensor& g) -> Tensor {
    if constexpr (std::is_void_v<decltype(hook(g))>) {
      hook(g);
      return {};
    } else {
      return hook(g);
    }
  });
}
void on_accumulated(const Tensor& leaf, std::function<void(const Tensor&)> hook);

}  // namespace mantissa
